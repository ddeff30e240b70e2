"""Compare the Bayesian models with their peers, side by side in one run, and write bayes.md.

python asv_benchmarks/compare_bayes.py                          every workload, some minutes on 2 cores
python asv_benchmarks/compare_bayes.py --workloads categorical --repeats 3 --scale 0.1
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparison.bayes_workloads import WORKLOADS, Options
from comparison.measure import Result

HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of generated tables (default 1)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder to write to")
    return parser.parse_args()


def line(result: Result) -> str:
    """A row of the report: each library's value, and what was to be reached."""
    unit = f" {result.unit}" if result.unit else ""
    values = ", ".join(f"{peer} {result.middle(peer):.4g}{unit}" for peer in result.values)
    reached = [
        f"{result.reached(goal):.1f} x {goal.against} (at least {goal.must:g})" for goal in result.goals if goal.against
    ]
    return f"| {result.workload} | {values} | {'; '.join(reached)} |"


def main() -> None:
    args = arguments()
    options = Options(args.repeats, args.scale)
    lines = [f"`python asv_benchmarks/compare_bayes.py {' '.join(sys.argv[1:])}`", "", "| | | |", "| --- | --- | --- |"]
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        lines += [line(result) for result in WORKLOADS[name](options)]
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "bayes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
