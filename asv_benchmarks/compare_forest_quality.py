"""Compare forests' importances and their scores on real tables with scikit-learn's.

python asv_benchmarks/compare_forest_quality.py                          every workload
python asv_benchmarks/compare_forest_quality.py --workloads real-tables --repeats 3
"""

from __future__ import annotations

import argparse
import shlex
import sys

from comparison import report
from comparison.forest_workloads import WORKLOADS, Options
from comparison.measure import Result


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of generated tables (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every library (default 2)")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    options = Options(args.repeats, args.scale, args.threads)
    results: list[Result] = []
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results += WORKLOADS[name](options)
    print(report.markdown(results, shlex.join(["python", *sys.argv])))


if __name__ == "__main__":
    main()
