"""Run scikit-learn's own tests of trees and ensembles on the classes of this package, and count those that pass.

Usage: python tools/sklearn_tests.py [--show] [MODULE ...], with modules named as below; --show lists what fails. A test
that fails only because of the text of an error or a warning counts as passed. A failure counts as explained if
docs/measured/scikit-learn.md names its test. Skipped tests are not counted.
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

import numpy as np
import sklearn
from numpy.typing import NDArray

import fastens

TREES = "DecisionTreeClassifier DecisionTreeRegressor"
FOREST_KINDS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
FORESTS = " ".join([TREES, *FOREST_KINDS, "RandomTreesEmbedding"])
COMBINING = (
    "BaggingClassifier BaggingRegressor VotingClassifier VotingRegressor StackingClassifier StackingRegressor "
    "AdaBoostClassifier AdaBoostRegressor"
)
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
    "ensemble/test_common": f"{FORESTS} {COMBINING}",
    "tests/test_naive_bayes": "GaussianNB MultinomialNB BernoulliNB ComplementNB CategoricalNB",
}
# The fixtures are those of scikit-learn's own conftest.py, with one seed. One thread: what records which method called
# `fit` of a member finds the caller on the stack of its own thread only.
CONFTEST = """
import os
import numpy as np
import pytest
import sklearn.ensemble
import sklearn.naive_bayes
import sklearn.tree
import fastens

for name in os.environ["REPLACED"].split():
    for module in (sklearn.tree, sklearn.ensemble, sklearn.naive_bayes):
        if hasattr(module, name):
            setattr(module, name, getattr(fastens, name))

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
PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured" / "scikit-learn.md"
EXPLAINED = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))


def run(module: str, show: bool) -> NDArray[np.int64]:
    """Run a module, and return the numbers of tests that pass, that fail, and that fail for an explained reason."""
    folder, name = module.split("/")
    inside = Path() if folder == "tests" else Path(folder)
    source = Path(sklearn.__file__).parent / inside / "tests" / f"{name}.py"
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(source, place)
        Path(place, "conftest.py").write_text(CONFTEST, encoding="utf-8")
        paths = os.pathsep.join([str(Path(fastens.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        output = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE", f"{name}.py"],
            cwd=place,
            env=os.environ
            | {"REPLACED": MODULES[module], "OMP_NUM_THREADS": "1", "COLUMNS": "400", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
    counts = dict.fromkeys(("passed", "failed", "error"), 0)
    counts |= {kind.removesuffix("s"): int(n) for n, kind in re.findall(r"(\d+) (passed|failed|errors?)", output[-1])}
    failed = [line for line in output if line.startswith(("FAILED", "ERROR"))]
    real = [line for line in failed if not any(text in line for text in OTHER_TEXT)]
    is_explained = [re.split(r"::|\[| ", line)[2] in EXPLAINED for line in real]
    found = np.array([counts["passed"] + len(failed) - len(real), len(real), sum(is_explained)])
    print_row(module, found)
    if show:
        shown = zip(real, is_explained, strict=True)
        print(*(f"    {'' if known else 'NOT EXPLAINED: '}{line[:300]}" for line, known in shown), sep="\n")
    return found


def print_row(name: str, numbers: NDArray[np.int64]) -> None:
    """Print a row of the table."""
    passed, failed, explained = numbers.tolist()
    print(f"| {name} | {passed} | {failed} | {explained} | {passed / max(passed + failed, 1):.1%} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(MODULES))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    print("| module | passed | failed | of these, explained | share passed |\n|---|--:|--:|--:|--:|")
    print_row("all", sum((run(module, given.show) for module in given.modules), np.zeros(3, dtype=np.int64)))
