"""Candidates for the defaults of boosting, on the tables that defaults may be chosen on: scores, resumable.

python asv_benchmarks/choose_defaults.py --candidates 60                 random candidates over all parameters at once
python asv_benchmarks/choose_defaults.py --ablate '{"split_penalty": 3}'   a candidate, and it without each of its parts
python asv_benchmarks/choose_defaults.py --tables set-aside --ablate '{"split_penalty": 3}'       the judgement, once

The protocol: candidates are drawn from SPACE, all parameters at once; each is fitted to every table of
`comparison/quality_tables.py`'s DEVELOPMENT with at most `--most-classes` classes, on the same splits as
`compare_quality.py`. The score is the geometric mean over tables of the loss, plus a shift, over that of today's
defaults on the same split; classes and numbers are told apart. Time counts: no candidate may take more than half of
LightGBM's. What wins is judged once on SET_ASIDE. Each fit is a line of `results/defaults.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.datasets import Table
from comparison.category_tables import read
from comparison.quality_libraries import LIBRARIES, with_options
from comparison.quality_runs import RunFile, at_defaults, run
from comparison.quality_tables import DEVELOPMENT, SET_ASIDE, TABLES
from comparison.report import table as markdown
from fastens.tuning.tune import Draw, log_uniform, log_whole, uniform

HERE = Path(__file__).resolve().parent
GROUPS = {"development": list(DEVELOPMENT), "set-aside": list(SET_ASIDE)}
TODAY = "{}"


def choice(*values: Any) -> Draw:
    """One of some values."""
    return lambda generator: values[int(generator.integers(len(values)))]


# Rounds go with the rate: a model of twice as many rounds at half of it costs twice the time.
SPACE: dict[str, Draw] = {
    "min_samples_leaf": log_whole(1, 40),
    "split_penalty": uniform(0.0, 8.0),
    "l2_regularization": log_uniform(0.1, 10.0),
    "max_leaf_nodes": log_whole(8, 64),
    "subsample": choice(1.0, 0.9, 0.8, 0.65),
    "max_features": choice(1.0, 0.8, 0.6, 0.4),
    "learning_rate": log_uniform(0.05, 0.15),
}


def drawn(index: int) -> dict[str, Any]:
    """The parameters of a candidate."""
    generator = np.random.default_rng(index)
    return {name: draw(generator) for name, draw in SPACE.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["development"], choices=[*GROUPS, *TABLES], metavar="NAME")
    parser.add_argument("--candidates", type=int, default=0, metavar="N")
    parser.add_argument("--ablate", type=json.loads, nargs="+", default=[], metavar="JSON")
    parser.add_argument("--rows", type=int, default=4_000, help="most rows of a table (default 4,000)")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--most-classes", type=int, default=10)
    parser.add_argument("--shift", type=float, default=0.01, help="added to losses before they are divided")
    parser.add_argument("--file", type=Path, default=HERE / "results" / "defaults.jsonl")
    args = parser.parse_args()
    args.tables = list(dict.fromkeys(name for given in args.tables for name in GROUPS.get(given, [given])))
    return args


def candidates(args: argparse.Namespace) -> list[str]:
    """Parameters as JSON: today's, those drawn, and those given with each of their parts left out."""
    found: list[dict[str, Any]] = [{}, *(drawn(index) for index in range(args.candidates))]
    for given in args.ablate:
        found.append(given)
        if len(given) > 1:
            found += [{name: value for name, value in given.items() if name != left_out} for left_out in given]
    return list(dict.fromkeys(json.dumps(each) for each in found))


def main() -> None:
    args = arguments()
    warnings.filterwarnings("ignore")
    file, wanted = RunFile(args.file), candidates(args)
    for name in args.tables:
        table: Table | None = None
        for split in range(args.splits):
            for candidate in wanted:
                key = {"table": name, "rows": args.rows, "split": split, "library": candidate, "how": "candidate"}
                if file.has(**key):
                    continue
                table = table or read(name, TABLES[name], args.rows)
                if table.n_classes > args.most_classes:
                    break
                library = with_options(LIBRARIES["fastens"], candidate, **json.loads(candidate))
                file.append(key | run(table, split, 1, at_defaults(library)))
        print(name, file=sys.stderr, flush=True)
    print(f"`python asv_benchmarks/choose_defaults.py {' '.join(sys.argv[1:])}`\n")
    print(scores(args, file, wanted))


def scores(args: argparse.Namespace, file: RunFile, wanted: list[str]) -> str:
    """For each candidate its loss and time over today's, of classes and numbers, the best first."""
    runs = file.chosen(table=args.tables, rows=[args.rows], split=range(args.splits), library=wanted)
    frame = pd.DataFrame([each for each in runs if "error" not in each])
    ratios = {}
    for measure, shift in (("loss", args.shift), ("fit_seconds", 0.0)):
        values = frame.pivot_table(index="table", columns="library", values=measure) + shift
        ratios[measure] = np.log(values.div(values[TODAY], axis=0))
    is_class = np.array([TABLES[name].is_class for name in ratios["loss"].index])
    rows = [["parameters", "loss", "classification", "regression", "worst table", "seconds"]]
    means = ratios["loss"].mean().sort_values()
    for candidate in means.index:
        own = ratios["loss"][candidate]
        shown = [own.mean(), own[is_class].mean(), own[~is_class].mean()]
        losses = ["" if np.isnan(value) else f"{np.exp(value):.4f}" for value in shown]
        worst = f"{np.exp(own.max()):.3f} {own.idxmax()}"
        seconds = f"{np.exp(ratios['fit_seconds'][candidate].mean()):.2f}"
        rows.append([_short(candidate), *losses, worst, seconds])
    return f"{markdown(rows)}\n\n{file.told_kept(runs)}"


def _short(candidate: str) -> str:
    given = json.loads(candidate)
    words = (f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in given.items())
    return ", ".join(words) or "today's"


if __name__ == "__main__":
    main()
