"""Compare the Bayesian models with their peers, side by side in one run.

python asv_benchmarks/compare_bayes.py                          every workload, some minutes on 2 cores
python asv_benchmarks/compare_bayes.py --workloads categorical --repeats 3 --scale 0.1
"""

from __future__ import annotations

import argparse
import shlex
import sys

from comparison import report
from comparison.bayes_workloads import WORKLOADS, Options
from comparison.measure import Result


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of generated tables (default 1)")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    options = Options(args.repeats, args.scale)
    results: list[Result] = []
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results += WORKLOADS[name](options)
    print(report.markdown(results, shlex.join(["python", *sys.argv])))


if __name__ == "__main__":
    main()
