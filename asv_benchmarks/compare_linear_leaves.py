"""Losses with linear models in the leaves and without, here and in LightGBM, on matched settings.

python asv_benchmarks/compare_linear_leaves.py                        the tables that no default was chosen on
python asv_benchmarks/compare_linear_leaves.py --tables yacht concrete --seeds 5
python asv_benchmarks/compare_linear_leaves.py --monotone              with `monotonic_cst` on some columns
python asv_benchmarks/compare_linear_leaves.py --speed --threads 1     200,000 generated rows of 28 columns
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from benchmarks.datasets import generated
from benchmarks.peer_models import Settings, make_fastens, make_lightgbm
from compare_categories import compare, measured
from comparison.category_tables import Library, Task, read
from comparison.measure import interleaved
from comparison.report import table

# `linear_l2` and the ranges of lines were chosen on the first group.
CHOOSING = {
    "abalone": Task("rings", is_class=False),
    "california_housing": Task("median_house_value", is_class=False),
    "concrete": Task("strength", is_class=False),
    "energy_efficiency": Task("heating_load", is_class=False),
    "power_plant": Task("PE", is_class=False),
    "reg_autompg": Task("class", is_class=False),
    "reg_cpu_act": Task("usr", is_class=False),
    "skillcraft": Task("y", is_class=False),
    "sml2010": Task("y", is_class=False),
    "yacht": Task("resistance", is_class=False),
    "phoneme": Task("class"),
    "magic_telescope": Task("class"),
    "eeg_eye_state": Task("eye_state"),
}
REPORTING = {
    "ames_housing": Task("Sale_Price", is_class=False),
    "appliances_energy": Task("Appliances", is_class=False),
    "bike_sharing_hour": Task("cnt", is_class=False, left_out=("casual", "registered")),
    "boston_housing": Task("medv", is_class=False),
    "diamonds": Task("price", is_class=False),
    "metro_traffic": Task("traffic_volume", is_class=False),
    "pol": Task("y", is_class=False),
    "reg_ailerons": Task("goal", is_class=False),
    "reg_elevators": Task("Goal", is_class=False),
    "wine_quality": Task("quality", is_class=False),
    "adult": Task("income", left_out=("split",)),
    "electricity": Task("class"),
    "higgs_23k": Task("label", left_out=("source",)),
    "oml_mozilla4": Task("target"),
}
# Columns that the target rises or falls with for whoever knows the subject.
SIGNS = {
    "ames_housing": {"Gr_Liv_Area": 1, "Lot_Area": 1, "Year_Built": 1},
    "boston_housing": {"x5": 1, "x12": -1},  # rooms; share of the poor
    "california_housing": {"median_income": 1},
    "concrete": {"x0": 1, "x3": -1, "x7": 1},  # cement, water, age
    "diamonds": {"carat": 1},
}
LIBRARIES = [
    Library("constant leaves", make_fastens),
    Library("linear leaves", make_fastens, linear_leaves=True),
    Library("LightGBM", make_lightgbm),
    Library("LightGBM, linear_tree", make_lightgbm, linear_tree=True),
    Library("LightGBM, linear_tree, linear_lambda=10", make_lightgbm, linear_tree=True, linear_lambda=10.0),
]


def print_monotone(n_seeds: int, n_threads: int) -> None:
    """Losses with constraints and without, relative to those of constrained constant leaves."""
    lines = []
    for name, signs in SIGNS.items():
        options = {
            f"{leaves}{words}": {"linear_leaves": leaves == "linear", "monotonic_cst": given}
            for words, given in (("", None), (", monotone", signs))
            for leaves in ("constant", "linear")
        }
        data = read(name, (CHOOSING | REPORTING)[name])
        losses = [
            measured(Library(who, make_fastens, **each), data, n_seeds, n_threads)[0] for who, each in options.items()
        ]
        lines = lines or [["table", *options]]
        lines.append([name, *(f"{value / losses[2]:.3f}" for value in losses)])
    print(table(lines))


def print_speed(n_threads: int) -> None:
    """Seconds of fits and predictions, medians of three."""
    data, settings = generated(200_000, 28, regression=True), Settings(n_threads=n_threads, regression=True)
    models = {each.name: each.make(settings).set_params(**each.options) for each in LIBRARIES[:4]}
    calls = {
        "fit": {name: lambda model=model: model.fit(data.X, data.y) for name, model in models.items()},
        "predict": {name: lambda model=model: model.predict(data.X) for name, model in models.items()},
    }
    lines = [["seconds", *models]]
    for what, each in calls.items():
        lines.append([what, *(f"{np.median(values):.3g}" for values in interleaved(each, 3).values())])
    print(table(lines))


def main() -> None:
    tasks = CHOOSING | REPORTING
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=tasks, default=list(REPORTING), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, help="splits into training and test rows (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--monotone", action="store_true", help="compare them under constraints instead")
    parser.add_argument("--speed", action="store_true", help="time them instead")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.monotone:
        print_monotone(args.seeds, args.threads)
        return
    if args.speed:
        print_speed(args.threads)
        return
    compare((read(name, tasks[name]) for name in args.tables), LIBRARIES, args.seeds, args.threads)


if __name__ == "__main__":
    main()
