"""Weights of any size: a model or a clear error, soon, in little memory, and no NaN, for every estimator there is."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import fastens
from reference.public_estimators import shrink_default_members

N_ROWS = 120
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N_ROWS, 4))
Z = X[:, 0] + X[:, 1] ** 2
Y = (Z + RNG.normal(size=N_ROWS) > 1).astype(int)


def one(weight):
    return np.where(np.arange(N_ROWS) == 7, weight, 1.0)


WEIGHTS = {
    "all 1e-6": np.full(N_ROWS, 1e-6),
    "all 1e-300": np.full(N_ROWS, 1e-300),
    "all 1e300": np.full(N_ROWS, 1e300),
    "a sum that overflows": np.full(N_ROWS, 1.7e308),
    "one of 1e9": one(1e9),
    "one of 1e20": one(1e20),
    "one of 1e300": one(1e300),
    "up to 1e6": RNG.integers(1, 10**6, N_ROWS).astype(float),
    "of a survey": np.rint(RNG.lognormal(12, 0.6, N_ROWS)),
    "half of them 5e-324": np.where(RNG.random(N_ROWS) < 0.5, 5e-324, 1.0),
}
KINDS = [
    kind
    for name in fastens.__all__
    if inspect.isclass(kind := getattr(fastens, name))
    and "sample_weight" in inspect.signature(getattr(kind, "fit", lambda: None)).parameters
]
SMALL = {"n_estimators": 4, "max_iter": 4, "n_trees": 4, "n_layers": 1, "n_jobs": 1, "random_state": 0}
# Parameters besides the defaults: other ways that weights take.
OTHERS = [
    (fastens.AdaBoostClassifier, {"resample": True}),
    (fastens.AdaBoostRegressor, {"resample": False}),
    (fastens.AdaBoostRegressor, {"estimator": Ridge()}),
    (fastens.BaggingClassifier, {"estimator": fastens.GaussianNB()}),
    (fastens.BaggingRegressor, {"estimator": Ridge(), "bootstrap": False, "max_samples": 0.01}),
    (fastens.BaggingRegressor, {"oob_score": True}),
    (fastens.BaggingRegressor, {"estimator": Ridge(), "oob_score": True}),
    (fastens.RandomForestClassifier, {"bootstrap": "balanced"}),
    (fastens.RandomForestClassifier, {"bootstrap": "stratified", "class_weight": {0: 1e300, 1: 1e-300}}),
    (fastens.RandomForestClassifier, {"class_weight": "balanced_subsample"}),
    (fastens.RandomForestClassifier, {"bootstrap": False, "class_weight": "balanced"}),
    (fastens.RandomForestClassifier, {"oob_score": True}),
    (fastens.RandomForestRegressor, {"oob_score": True}),
    (fastens.GradientBoostingClassifier, {"subsample": 0.5, "class_weight": {0: 1e-300, 1: 1e300}}),
    (fastens.GradientBoostingClassifier, {"early_stopping": True}),
    (fastens.GradientBoostingRegressor, {"subsample": 0.5, "oob_score": True}),
    (fastens.GradientBoostingRegressor, {"loss": "absolute_error", "early_stopping": True}),
    (fastens.GradientBoostingRegressor, {"loss": "quantile", "quantile": 0.9, "sampling": "mvs", "subsample": 0.5}),
    (fastens.GradientBoostingRegressor, {"linear_leaves": True}),
    (fastens.DecisionTreeClassifier, {"ccp_alpha": 0.01, "class_weight": {0: 1e300, 1: 1e-300}}),
    (fastens.IsolationForest, {"contamination": 0.1}),
]
# Of several members that are here themselves: some weights will do.
COMPOSED = ("Cascade", "Stacking", "Voting", "BayesOptimal", "Gibbs", "MAP", "ML", "WeightedMajority", "Conformal")
FEW_WEIGHTS = ("all 1e-6", "one of 1e300", "of a survey", "half of them 5e-324")
CASES = [
    pytest.param(kind, parameters, weights, id=f"{kind.__name__} {parameters or ''} {weights}")
    for kind, parameters in [(kind, {}) for kind in KINDS] + OTHERS
    for weights in (FEW_WEIGHTS if kind.__name__.startswith(COMPOSED) else WEIGHTS)
]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 3)


def table_and_target(kind):
    name = kind.__name__
    if name == "TextClassifier":
        return ["to be or not" if label else "be this or that" for label in Y], Y
    if name in {"GaussianNB", "MixedNB"} or name.endswith(("Tree", "Boosting")):
        return X, Y
    if kind.__module__.startswith("fastens.bayes") and not name.startswith("BayesTree"):
        return np.abs(np.floor(2 * X)).clip(0, 2), Y
    if name == "GradientBoostingSurvival":
        return X, np.exp(Z / 3)
    return X, Z if name.endswith("Regressor") else Y


def smaller(kind, parameters):
    model = kind()
    known = model.get_params(deep=False)
    return kind(**{name: value for name, value in SMALL.items() if name in known} | parameters)


def answers(model, rows):
    for name in ("predict", "predict_proba", "decision_function", "score_samples"):
        if hasattr(model, name):
            yield np.asarray(getattr(model, name)(rows))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "parameters", "weights"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_model_or_a_clear_error(kind, parameters, weights):
    rows, target = table_and_target(kind)
    model, weight = smaller(kind, parameters), WEIGHTS[weights]
    more = {"qid": np.repeat(np.arange(12), 10)} if kind is fastens.GradientBoostingRanker else {}
    problem = ""
    try:
        if "y" in inspect.signature(kind.fit).parameters:
            model.fit(rows, target, sample_weight=weight, **more)
        else:
            model.fit(rows, sample_weight=weight)
    except ValueError as error:
        problem = str(error)
    if problem:
        assert "sample_weight" in problem
        return
    for found in answers(model, rows):
        assert found.dtype.kind != "f" or np.isfinite(found).all()
    if hasattr(model, "score") and not more:
        assert np.isfinite(model.score(rows, target, sample_weight=weight))
    if hasattr(model, "feature_importances_"):
        assert np.isfinite(model.feature_importances_).all()


SCALED = [
    (fastens.GradientBoostingClassifier, Y),
    (fastens.GradientBoostingRegressor, Z),
    (fastens.RandomForestClassifier, Y),
    (fastens.ExtraTreesRegressor, Z),
    (fastens.AdaBoostClassifier, Y),
    (fastens.DecisionTreeRegressor, Z),
]


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 2.0**60 + 2.0**20, 1e300])
@pytest.mark.parametrize(("kind", "target"), SCALED, ids=lambda case: getattr(case, "__name__", ""))
def test_the_scale_of_shares_does_not_matter(kind, target, scale):
    """Boosting learned nothing from weights of 1e-6: no leaf had the smallest sum of hessians."""
    weight = np.random.default_rng(1).random(N_ROWS) + 0.01
    expected = smaller(kind, {}).fit(X, target, weight / weight.mean())
    found = smaller(kind, {}).fit(X, target, weight / weight.mean() * scale)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-5, atol=1e-5)
    assert found.score(X, target) > 0.2


@pytest.mark.parametrize("weight", [1e6, 1e9, 1e12, 1e13])
@pytest.mark.parametrize(
    ("model", "target"),
    [
        (fastens.BayesTreeClassifier(weight_type="frequency"), Y),
        (fastens.BayesTreeRegressor(weight_type="frequency"), Z),
        (
            fastens.RandomForestRegressor(
                2, averaging="posterior", bootstrap=False, weight_type="frequency", random_state=0
            ),
            Z,
        ),
    ],
)
def test_priors_are_nothing_next_to_large_weights(model, target, weight):
    """Sums of 1 were rounded to steps of 2 and more: the trees did not split."""
    found = model.fit(X, target, sample_weight=np.full(N_ROWS, weight))
    assert_allclose(found.predict(X), target, atol=0.01)


@pytest.mark.parametrize("kind", [fastens.RandomForestClassifier, fastens.BaggingClassifier])
def test_counts_of_large_weights_follow_them(kind):
    weight = WEIGHTS["of a survey"]
    model = smaller(kind, {"weight_type": "frequency"}).fit(X, Y, weight)
    drawn = model.in_bag(2)
    assert drawn.sum() == weight.sum()
    assert np.abs((drawn - weight) / np.sqrt(weight)).max() < 5
    again = smaller(kind, {"weight_type": "frequency", "n_jobs": 2}).fit(X, Y, weight)
    assert_array_equal(again.in_bag(2), drawn)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_draws_with_resampling_are_as_many_as_copies():
    weight = np.random.default_rng(2).integers(1, 40, N_ROWS).astype(float)
    rows = np.repeat(np.arange(N_ROWS), weight.astype(int))
    for kind, target in ((fastens.AdaBoostRegressor, Z), (fastens.AdaBoostClassifier, Y)):
        model = smaller(kind, {"resample": True, "weight_type": "frequency"})
        of_weights = model.fit(X, target, weight).predict(X)
        assert_array_equal(model.fit(X[rows], target[rows]).predict(X), of_weights)


@pytest.mark.parametrize(
    "model",
    [fastens.AdaBoostRegressor(n_estimators=3), fastens.BaggingRegressor(Ridge(), 3), fastens.IsolationForest(3)],
)
@pytest.mark.parametrize("weights", ["one of 1e9", "of a survey"])
def test_memory_follows_rows(model, weights):
    tracemalloc.start()
    model.fit(X, Z, sample_weight=WEIGHTS[weights])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize(
    "model",
    [
        fastens.BaggingClassifier(KNeighborsClassifier(), weight_type="frequency"),
        fastens.BaggingClassifier(fastens.GaussianNB(), sampling="rows", weight_type="frequency"),
        fastens.AdaBoostRegressor(KNeighborsRegressor(), weight_type="frequency"),
        fastens.WeightedMajorityClassifier(weight_type="frequency"),
    ],
    ids=["no weights", "rows", "boosting", "one by one"],
)
def test_copies_that_would_have_to_be_made_are_too_many(model):
    with pytest.raises(ValueError, match="sample_weight must sum to at most"):
        model.fit(X, Y, sample_weight=WEIGHTS["of a survey"])


def test_where_all_rows_are_in_all_bags():
    model = fastens.RandomForestRegressor(3, oob_score=True, weight_type="frequency", random_state=0)
    with pytest.warns(UserWarning, match="All rows are in all bags, so oob_score_ is NaN: the draws per row are"):
        model.fit(X, Z, sample_weight=np.full(N_ROWS, 1e5))
    assert np.isnan(model.oob_score_)
    with pytest.raises(ValueError, match="max_samples must leave rows out of bags"):
        model.predict_interval(X)


def test_too_many_draws():
    with pytest.raises(ValueError, match=r"max_samples must give at most 2\*\*53 draws; got 1e\+17"):
        fastens.RandomForestClassifier(2, max_samples=1e17).fit(X, Y)


@pytest.mark.parametrize("weight", [np.full(N_ROWS, 1e-5), np.linspace(0.5, 1.5, N_ROWS) / N_ROWS])
def test_intervals_count_rows_where_weights_are_shares(weight):
    for model in (
        fastens.ConformalRegressor(fastens.GradientBoostingRegressor(n_estimators=5), random_state=0),
        fastens.RandomForestRegressor(30, oob_score=True, random_state=0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model.fit(X, Z, sample_weight=weight).predict_interval(X)
        assert np.isfinite(found).all()


def test_weights_to_score_by_are_any():
    model = fastens.DecisionTreeClassifier(max_depth=2).fit(X, Y)
    weight = np.linspace(1, 1.7, N_ROWS)
    assert model.score(X, Y, weight * 1e308) == pytest.approx(model.score(X, Y, weight))
    with pytest.raises(ValueError, match="sample_weight must be finite and non-negative; got -1"):
        model.score(X, Y, -np.ones(N_ROWS))


@pytest.fixture
def listens():
    """Ctrl-C is an exception, also in a process that was started to ignore it, as in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("listens")
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to oneself")
@pytest.mark.parametrize(
    "model",
    [
        fastens.RandomForestClassifier(10**5, n_jobs=1),
        fastens.RandomForestClassifier(10**5, n_jobs=2),
        fastens.BaggingClassifier(fastens.GaussianNB(), 10**5, n_jobs=2),
    ],
    ids=["forest", "forest of two threads", "bags"],
)
def test_ctrl_c_ends_drawing(model):
    rows, target = np.tile(X, (200, 1)), np.tile(Y, 200)
    weight = np.tile(WEIGHTS["of a survey"], 200)
    pressed, ended = [], threading.Event()

    def press():
        # Once may not do: Python drops an exception that falls into a finalizer.
        while not ended.wait(1.0):
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows, target, sample_weight=weight)
        assert time.monotonic() - pressed[-1] < 3
    finally:
        ended.set()
        thread.join()
