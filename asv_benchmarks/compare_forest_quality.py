"""Compare forests' importances and their scores on real tables with scikit-learn's, and write forest_quality.md.

python asv_benchmarks/compare_forest_quality.py                          every workload
python asv_benchmarks/compare_forest_quality.py --workloads real-tables --repeats 3
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from comparison.forest_workloads import WORKLOADS, Options
from comparison.measure import Result

HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of generated tables (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every library (default 2)")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder to write to")
    return parser.parse_args()


def line(result: Result) -> str:
    """A row of the report: the libraries' values, and how many times better than a peer, with what was to be."""
    unit = f" {result.unit}" if result.unit else ""
    values = ", ".join(f"{library} {result.middle(library):.4g}{unit}" for library in result.values)
    reached = [(goal, result.reached(goal)) for goal in result.goals]
    words = [
        f"{value:.3g} x {goal.against} (at least {goal.must:g})"
        if goal.against
        else f"{value:.3g} (at most {goal.must:g})"
        for goal, value in reached
        if value is not None
    ]
    return f"| {result.workload} | {values} | {'; '.join(words)} |"


def main() -> None:
    args = arguments()
    options = Options(args.repeats, args.scale, args.threads)
    lines = [
        f"`python asv_benchmarks/compare_forest_quality.py {' '.join(sys.argv[1:])}`",
        "",
        "| | | |",
        "| --- | --- | --- |",
    ]
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        lines += [line(result) for result in WORKLOADS[name](options)]
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "forest_quality.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
