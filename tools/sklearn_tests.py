"""Run scikit-learn's own tests of trees and ensembles on the classes of this package, and count those that pass.

Usage: python tools/sklearn_tests.py [--show] [MODULE ...], with modules named as below; --show lists what fails. A test
that fails for nothing but the text of an error or warning counts as passed. docs/scikit-learn.md explains the others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sklearn

import fastens

TREES = "DecisionTreeClassifier DecisionTreeRegressor"
FOREST_KINDS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
FORESTS = " ".join([TREES, *FOREST_KINDS, "RandomTreesEmbedding"])
# The test modules, and the classes that are replaced in each.
MODULES = {
    "ensemble/test_forest": FORESTS,
    "ensemble/test_bagging": f"{TREES} BaggingClassifier BaggingRegressor",
    "ensemble/test_voting": "VotingClassifier VotingRegressor",
    "ensemble/test_stacking": "StackingClassifier StackingRegressor",
    "ensemble/test_weight_boosting": f"{TREES} AdaBoostClassifier AdaBoostRegressor",
    "ensemble/test_iforest": "IsolationForest",
    "tree/test_tree": TREES,
    "tree/test_monotonic_tree": FORESTS,
    "tree/test_export": TREES,
}
# The fixtures are those of scikit-learn's own conftest.py, with one seed. One thread: what records which method called
# `fit` of a member finds the caller on the stack of its own thread only.
CONFTEST = """
import os
import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
import fastens

for name in os.environ["REPLACED"].split():
    setattr(sklearn.tree if name.startswith("DecisionTree") else sklearn.ensemble, name, getattr(fastens, name))

@pytest.fixture
def global_random_seed():
    return 42

@pytest.fixture
def pyplot():
    from matplotlib import pyplot
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")

@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param
"""
OTHER_TEXT = ("Regex pattern did not match", "Pattern")


def run(module: str, show: bool) -> tuple[int, int]:
    """Run a module; return how many of its tests pass, and how many there are."""
    folder, name = module.split("/")
    source = Path(sklearn.__file__).parent / folder / "tests" / f"{name}.py"
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(source, place)
        Path(place, "conftest.py").write_text(CONFTEST, encoding="utf-8")
        paths = os.pathsep.join([str(Path(fastens.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        found = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE", f"{name}.py"],
            cwd=place,
            env=os.environ
            | {"REPLACED": MODULES[module], "OMP_NUM_THREADS": "1", "COLUMNS": "400", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
    counts = dict.fromkeys(("passed", "failed", "error"), 0)
    counts |= {kind.removesuffix("s"): int(n) for n, kind in re.findall(r"(\d+) (passed|failed|errors?)", found[-1])}
    failed = [line for line in found if line.startswith(("FAILED", "ERROR"))]
    real = [line for line in failed if not any(text in line for text in OTHER_TEXT)]
    passed = counts["passed"] + len(failed) - len(real)
    print(f"| {module} | {passed} | {sum(counts.values())} |")
    if show:
        print(*(f"    {line[:300]}" for line in real), sep="\n")
    return passed, sum(counts.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(MODULES))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    print("| module | pass | of |\n|---|--:|--:|")
    totals = [run(module, given.show) for module in given.modules]
    print(f"| all | {sum(passed for passed, _ in totals)} | {sum(total for _, total in totals)} |")
