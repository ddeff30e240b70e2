"""Losses and times of all libraries on real tables, as they come or tuned: one command, resumable.

python asv_benchmarks/compare_quality.py                                  the defaults on the tables set aside
python asv_benchmarks/compare_quality.py --tables development --rounds 100      as many rounds for all of boosting
python asv_benchmarks/compare_quality.py --libraries all                  forests, AdaBoost and Bayes, too: calibration
python asv_benchmarks/compare_quality.py --tuned 20 --time-limit 60       random search in published spaces; our dial
python asv_benchmarks/compare_quality.py --variants '{"more l2": {"l2_regularization": 3}}'      fastens otherwise
python asv_benchmarks/compare_quality.py --variants '{"by leaves": {"of": "CatBoost", "grow_policy": "Lossguide"}}'

Each run is a line of `results/quality.jsonl`; what is there is not run again. Log loss of classes, root mean squared
error over the target's spread of numbers. Ratios of losses are of both plus `--shift`, so that the tables without
noise, whose losses are near 0, do not decide alone. Writes `quality.md` and `quality.png` beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

from benchmarks.datasets import Table
from comparison import quality_report
from comparison.category_tables import read
from comparison.quality_libraries import (
    BOOSTING,
    LIBRARIES,
    OF_CLASSES_ONLY,
    at_best,
    is_installed,
    with_options,
    with_rounds,
)
from comparison.quality_runs import Answer, RunFile, at_defaults, run
from comparison.quality_spaces import SPACES
from comparison.quality_tables import DEVELOPMENT, SET_ASIDE, TABLES
from comparison.quality_tuning import tuned
from comparison.report import machine

HERE = Path(__file__).resolve().parent
GROUPS = {"development": list(DEVELOPMENT), "set-aside": list(SET_ASIDE), "all": list(TABLES)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["set-aside"], choices=[*GROUPS, *TABLES], metavar="NAME")
    parser.add_argument("--libraries", nargs="*", default=BOOSTING, choices=["all", *LIBRARIES], metavar="NAME")
    parser.add_argument("--variants", type=json.loads, default={}, help="libraries with other parameters, as JSON")
    parser.add_argument("--rounds", type=int, help="so many rounds at a rate of 0.1 for all of boosting")
    parser.add_argument("--tuned", type=int, default=0, metavar="N", help="random configurations of each library")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds to tune a library on a split")
    parser.add_argument("--rows", type=int, default=20_000, help="most rows of a table (default 20,000)")
    parser.add_argument("--splits", type=int, default=2, help="splits into training and test rows (default 2)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shift", type=float, default=0.01, help="added to losses before they are divided")
    parser.add_argument("--file", type=Path, default=HERE / "results" / "quality.jsonl")
    args = parser.parse_args()
    args.tables = list(dict.fromkeys(name for given in args.tables for name in GROUPS.get(given, [given])))
    args.libraries = list(LIBRARIES) if "all" in args.libraries else args.libraries
    return args


def answers(args: argparse.Namespace) -> dict[str, tuple[str, Answer]]:
    """For each library how it is used, in words and as a function."""
    missing = [name for name in args.libraries if not is_installed(name)]
    print(*(f"left out, not installed: {name}" for name in missing), sep="\n", file=sys.stderr)
    chosen = [LIBRARIES[name] for name in args.libraries if name not in missing]
    if args.tuned:
        how = f"tuned {args.tuned}, {args.time_limit:g} s"
        found = {each.name: (how, tuned(each, args.tuned, args.time_limit)) for each in chosen if each.name in SPACES}
        return {"best": (how, at_defaults(at_best(args.time_limit))), **found}
    chosen += [with_options(LIBRARIES[own.pop("of", "fastens")], name, **own) for name, own in args.variants.items()]
    if not args.rounds:
        return {each.name: ("as it comes", at_defaults(each)) for each in chosen}
    how = f"{args.rounds} rounds"
    return {each.name: (how, at_defaults(with_rounds(each, args.rounds))) for each in chosen}


def main() -> None:
    args = arguments()
    warnings.filterwarnings("ignore")
    used, file = answers(args), RunFile(args.file)
    for name in args.tables:
        table: Table | None = None
        for split in range(args.splits):
            for library, (how, answer) in used.items():
                key = {"table": name, "rows": args.rows, "split": split, "library": library, "how": how}
                if file.has(**key) or (library in OF_CLASSES_ONLY and not TABLES[name].is_class):
                    continue
                table = table or read(name, TABLES[name], args.rows)
                print(name, split, library, file=sys.stderr, flush=True)
                file.append(key | run(table, split, args.threads, answer))
    report(args, file, used)


def report(args: argparse.Namespace, file: RunFile, used: dict[str, tuple[str, Answer]]) -> None:
    parts = [
        "# Losses of all libraries",
        f"`python asv_benchmarks/compare_quality.py {' '.join(sys.argv[1:])}`",
        machine(),
    ]
    chosen = {"splits": range(args.splits), "rows": [args.rows], "hows": {how for how, _ in used.values()}}
    names = {"classification": True, "regression": False}
    for group, among in {"all": None, **names}.items():
        libraries = [name for name in used if among or name not in OF_CLASSES_ONLY]
        tables = [name for name in args.tables if among is None or TABLES[name].is_class == among]
        runs = file.chosen(
            table=tables, library=libraries, split=chosen["splits"], rows=chosen["rows"], how=chosen["hows"]
        )
        if not runs:
            continue
        results = quality_report.Results(runs, libraries, args.shift)
        n_tables = len(results.loss)
        count = f"All {n_tables}" if group == "all" else f"{n_tables} {group}"
        parts += [f"## {count} table{'s' * (n_tables > 1)}", quality_report.summary(results)]
        if group == "all":
            overall, kept = results, file.told_kept(runs)
            quality_report.pareto(results, args.file.with_suffix(".png"))
        if among and len(results.ece):
            parts.append(quality_report.calibration(results))
    parts += ["## By table", quality_report.by_table(overall), kept]
    parts += [f"- {name}: {library} stopped: {error}" for name, library, error in overall.failed]
    text = "\n\n".join(part for part in parts if part) + "\n"
    args.file.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
