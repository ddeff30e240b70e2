"""Every public estimator takes a ceiling for its memory, names the least that would do, and keeps to it."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import fastens as fe
from reference.children import run_child
from table.test_memory_limits import linux_only

RNG = np.random.default_rng(3)
N_ROWS = 300
X = pd.DataFrame(RNG.integers(0, 4, (N_ROWS, 4)).astype(float), columns=list("abcd"))
Y = (X["a"] + (X["b"] > 1) > 2).astype(int).to_numpy()
TIMES = np.array(list(zip(Y == 1, X["c"] + 1, strict=True)), dtype=[("event", bool), ("time", float)])


def boosting():
    return fe.GradientBoostingClassifier(n_estimators=3)


def members(kind):
    return kind([("trees", boosting()), ("counts", fe.GaussianNB())])


MADE = {
    "VotingRegressor": lambda kind: kind([("trees", fe.GradientBoostingRegressor(n_estimators=3))]),
    "StackingRegressor": lambda kind: kind([("trees", fe.GradientBoostingRegressor(n_estimators=3))]),
    "BaggingClassifier": lambda kind: kind(fe.GaussianNB(), n_estimators=3),
    "CascadeForestClassifier": lambda kind: kind([("trees", fe.ExtraTreesClassifier(3))], max_layers=1),
    "CascadeForestRegressor": lambda kind: kind([("trees", fe.ExtraTreesRegressor(3))], max_layers=1),
    "ConformalClassifier": lambda kind: kind(boosting()),
    "AdaBoostClassifier": lambda kind: kind(fe.DecisionTreeClassifier(max_depth=2), n_estimators=3),
} | dict.fromkeys(
    (
        "VotingClassifier",
        "StackingClassifier",
        "WeightedMajorityClassifier",
        "MAPClassifier",
        "MaximumLikelihoodClassifier",
    )
    + ("BayesOptimalClassifier", "GibbsClassifier"),
    members,
)
NAMES = [
    name
    for name in fe.__all__
    if inspect.isclass(kind := getattr(fe, name)) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")
]


def made(name):
    kind = getattr(fe, name)
    model = MADE[name](kind) if name in MADE else kind()
    drawn = {"random_state": 0} if "random_state" in model.get_params() else {}
    return model.set_params(**drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "FiniteHypothesisLearner"])
def test_the_least_that_is_named_is_enough_and_makes_the_same_model(name):
    if name == "TextClassifier":
        table = pd.DataFrame({"text": np.where(Y, "some words here", "words of another kind")})
    elif name == "ExactTreeAverageClassifier":
        table = X > 1
    else:
        table = X
    y = TIMES if name == "GradientBoostingSurvival" else Y
    given = {"qid": np.arange(N_ROWS) // 10} if name == "GradientBoostingRanker" else {}
    limited, least = None, "1KB"
    for _ in range(3):  # the second time, categories are known
        try:
            limited = made(name).fit(fe.TableSource(table, max_memory=least), y, **given)
        except ValueError as error:
            least = re.search(r"^max_memory must be at least (\S+) for", str(error))[1]
    assert least != "1KB"
    whole = made(name).fit(table, y, **given)
    answer = "transform" if name == "RandomTreesEmbedding" else "predict"
    found, expected = (getattr(each, answer)(table) for each in (limited, whole))
    for each in (found, expected):
        assert each.shape[0] == N_ROWS
    assert abs(found - expected).max() == 0


def test_an_estimate_without_a_table():
    bags = fe.FiniteHypothesisLearner([[0.5, 0.5], [0.1, 0.9]])
    assert fe.estimate_memory(bags, 10**6, 1).in_memory > fe.estimate_memory(bags, 10**5, 1).in_memory


@pytest.mark.parametrize("model", [fe.CategoricalNB(), fe.AODEClassifier(), fe.BayesianNetwork(structure="chow-liu")])
def test_categories_that_come_late_count(model, tmp_path):
    """Of a table in batches they are not known before it is read."""
    words = pd.DataFrame({"id": [f"word {i % 2500}" for i in range(70_000)], "other": "x"})
    words.iloc[:66_000, 0] = "word"
    words.assign(y=np.arange(70_000) % 2).to_parquet(tmp_path / "words.parquet")
    few = fe.estimate_memory(model, *words.shape, n_values=2, value_bytes=4)
    with pytest.raises(ValueError, match="max_memory must be at least"):
        model.fit(fe.TableSource(tmp_path / "words.parquet", max_memory=few.in_memory), "y")


def test_terms_that_come_late_count(tmp_path):
    texts = pd.DataFrame({"text": ["word"] * 5000 + [f"term{i} word{i}" for i in range(20_000)]})
    texts.assign(y=np.arange(25_000) % 2).to_parquet(tmp_path / "texts.parquet")
    few = fe.estimate_memory(fe.TextClassifier(), len(texts), 1, value_bytes=20)
    with pytest.raises(ValueError, match=r"max_memory must be at least \S+ for TextClassifier"):
        fe.TextClassifier().fit(fe.TableSource(tmp_path / "texts.parquet", max_memory=few.in_memory), "y")


MEASURED = [
    ("fe.GaussianNB()", "numbers"),
    ("fe.CategoricalNB()", "words"),
    ("fe.MixedNB()", "words"),
    ("fe.TANClassifier()", "numbers"),
    ("fe.AODEClassifier()", "words"),
    ("fe.BayesianNetwork(structure='chow-liu')", "words"),
    ("fe.VotingClassifier([('a', fe.GaussianNB()), ('b', fe.GradientBoostingClassifier(n_estimators=2))])", "numbers"),
    ("fe.StackingClassifier([('a', fe.GradientBoostingClassifier(n_estimators=2))], cv=2)", "numbers"),
]


@pytest.mark.slow
@linux_only
def test_what_fits_take_is_within_their_estimates(tmp_path):
    """At least what was measured, and at most twice that and 90 MB: of small tables most is what Arrow holds."""
    measured = """
    import ctypes
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import fastens as fe

    def status(field):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

    rng = np.random.default_rng(0)
    n_rows, n_columns, n_values = 400_000, 12, 20
    labels = {"y": rng.integers(0, 3, n_rows)}
    words = np.array([f"word {i}" for i in range(n_values)])
    numbers = {f"c{i}": rng.random(n_rows) for i in range(n_columns)}
    pq.write_table(pa.table(numbers | labels), "numbers.parquet")
    texts = {name: words[(x * n_values).astype(int)] for name, x in numbers.items()}
    pq.write_table(pa.table(texts | labels), "words.parquet")
    of_table = {"numbers": {}, "words": {"n_values": n_values, "value_bytes": 4}}
    for kind in of_table:
        pq.write_table(pq.read_table(f"{kind}.parquet").slice(0, 2000), f"small {kind}.parquet")
    del numbers, labels, words, texts
    for model, kind in MODELS:
        needs = fe.estimate_memory(model, n_rows, n_columns, n_outputs=3, **of_table[kind])
        model.fit(fe.TableSource(f"small {kind}.parquet", max_memory="4GB"), "y")
        model = type(model)(**model.get_params(deep=False))
        pa.default_memory_pool().release_unused()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        before = status("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        model.fit(fe.TableSource(f"{kind}.parquet", max_memory=needs.in_memory), "y")
        print(status("VmHWM") - before, needs.in_memory)
    """
    models = ", ".join(f"({model}, {kind!r})" for model, kind in MEASURED)
    done = run_child(inspect.cleandoc(measured).replace("MODELS", f"[{models}]"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = list(map(int, done.stdout.split()))
    for model, taken, estimated in zip(MEASURED, found[::2], found[1::2], strict=True):
        assert taken <= estimated <= 2 * taken + (90 << 20), (model, taken, estimated)
