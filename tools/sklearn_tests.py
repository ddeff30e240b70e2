"""Run scikit-learn's own tests of trees and ensembles on the classes of this package, and count those that pass.

Usage: python tools/sklearn_tests.py [--show] [MODULE ...], with modules named as below; --show lists what fails. The
texts of errors and warnings are not compared. A failure counts as explained if docs/measured/scikit-learn.md names its
test. The last row leaves out the tests that the page's section on private parts names. Skipped tests are not counted.
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

def without_text(expect):
    return lambda *given, match=None, **options: expect(*given, **options)

pytest.raises, pytest.warns = without_text(pytest.raises), without_text(pytest.warns)

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
PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured" / "scikit-learn.md"
EXPLAINED, OF_PRIVATE_PARTS = (
    set(re.findall(r"`(test_\w+)`", text))
    for text in (PAGE.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8").split("\n## ")[2])
)


def run(module: str, show: bool) -> NDArray[np.int64]:
    """Return how many tests of a module pass, fail, fail as explained, and fail because they use private parts."""
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
    names = [re.split(r"::|\[| ", line)[2] for line in failed]
    is_explained = [name in EXPLAINED for name in names]
    n_private = sum(name in OF_PRIVATE_PARTS for name in names)
    found = np.array([counts["passed"], len(failed), sum(is_explained), n_private])
    print_row(module, found[:3])
    if show:
        shown = zip(failed, is_explained, strict=True)
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
    total = sum((run(module, given.show) for module in given.modules), np.zeros(4, dtype=np.int64))
    print_row("all", total[:3])
    print_row("all that use no private parts", total[:3] - total[3] * np.array([0, 1, 1]))
