"""Every estimator on infinite, huge, tiny and missing values: a model or a clear error, and no NaN."""

from __future__ import annotations

import inspect
import time

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import fastens
from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingRegressor,
    BayesTreeRegressor,
    CascadeForestRegressor,
    ConformalRegressor,
    DecisionStumpRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from reference.public_estimators import shrink_default_members

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

N_ROWS = 60
LARGEST = np.finfo(np.float64).max
SMALLEST = 5e-324
NOT_NUMBERS = {"TextClassifier", "FiniteHypothesisLearner"}
FAST = {"n_estimators": 3, "random_state": 0, "n_jobs": 1}
# Seconds for one estimator on one table, on a machine that does other things too.
PATIENCE = 20


def takes_numbers():
    """The public estimators that are made without arguments and take a table of numbers."""
    for name in sorted(set(fastens.__all__) - NOT_NUMBERS):
        kind = getattr(fastens, name)
        if inspect.isclass(kind) and hasattr(kind, "fit"):
            required = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
            if not required:
                yield name


NAMES = list(takes_numbers())


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    # Rows here are in the order of the target: trees of one half say nothing of the other.
    shrink_default_members(monkeypatch, 3, n_folds=3)


def make(name):
    kind = getattr(fastens, name)
    known = inspect.signature(kind).parameters
    return kind(**{key: value for key, value in FAST.items() if key in known})


def among(*values, dtype=np.float64):
    """Ordinary numbers with a few others."""
    column = np.random.default_rng(0).normal(size=N_ROWS).astype(dtype)
    column[3 : 3 + len(values)] = values
    return column


def random_column(*values, dtype=np.float64):
    return np.random.default_rng(1).choice(np.array(values, dtype=dtype), N_ROWS)


COLUMNS = {
    "all missing": np.full(N_ROWS, np.nan),
    "minus infinity": among(-np.inf),
    "infinities": among(-np.inf, np.inf, np.inf),
    "only infinities": random_column(-np.inf, np.inf),
    "huge": among(-1.7e308, 1.7e308, LARGEST),
    "only huge": random_column(-1.7e308, 1.7e308),
    "one huge value": np.full(N_ROWS, 1.7e308),
    "subnormal": random_column(0.0, SMALLEST, 2 * SMALLEST, 3 * SMALLEST),
    "one value": np.full(N_ROWS, 3.0),
    "both zeros": random_column(0.0, -0.0),
    "float32": among(3.4e38, -3.4e38, np.inf, -np.inf, 1e-45, dtype=np.float32),
}


def target_for(model, signal):
    name = type(model).__name__
    if is_classifier(model):
        return (signal > 0).astype(int)
    if name == "GradientBoostingSurvival":
        return np.array(list(zip(signal > -1, np.exp(signal), strict=True)), dtype=[("event", bool), ("time", float)])
    return np.digitize(signal, [-1, 0, 1]) if name == "GradientBoostingRanker" else signal


def fitted(name, X, signal):
    model = make(name)
    groups = {"group": [10] * (len(X) // 10)} if name == "GradientBoostingRanker" else {}
    return model.fit(X, target_for(model, signal), **groups)


ANSWERS = ("predict", "predict_proba", "decision_function", "score_samples", "apply", "decision_path", "transform")


def check_answers(model, X):
    """No answer is NaN, apart from missing values that an encoder keeps, and predictions are finite."""
    for method in ANSWERS:
        if not hasattr(model, method) or (method == "transform" and not hasattr(model, "fit_transform")):
            continue
        found = getattr(model, method)(X)
        for part in found if isinstance(found, list | tuple) else [found]:
            values = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
            if values.dtype.kind == "f":
                keeps_missing = type(model).__name__ == "TableEncoder"
                assert keeps_missing or not np.isnan(values).any(), method
                assert method != "predict" or np.isfinite(values).all()


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("name", NAMES)
def test_columns_of_extreme_values(name, column):
    other = np.random.default_rng(2).normal(size=N_ROWS).astype(column.dtype)
    X = np.column_stack([column, np.abs(other) if name in ("MultinomialNB", "ComplementNB") else other])
    started = time.perf_counter()
    try:
        model = fitted(name, X, other + 0.5 * np.sign(np.nan_to_num(column)))
    except ValueError as error:
        assert "olumn 0" in str(error) or "'x0'" in str(error), error  # noqa: PT017
        return
    check_answers(model, X)
    assert time.perf_counter() - started < PATIENCE


# Trees whose thresholds are searched for, on all rows: bags are drawn by the rows' content, and rows that are not drawn
# may lie on either side of a threshold in the middle between two drawn values. AdaBoostRegressor draws rows.
SEARCHED = [
    AdaBoostClassifier(n_estimators=5),
    BayesTreeRegressor(),
    DecisionStumpRegressor(),
    DecisionTreeClassifier(max_depth=4, random_state=0),
    DecisionTreeRegressor(criterion="absolute_error", random_state=0),
    GradientBoostingClassifier(n_estimators=5, min_samples_leaf=2),
    GradientBoostingRegressor(n_estimators=5, min_samples_leaf=2),
    RandomForestClassifier(n_estimators=5, bootstrap=False, max_features=1, random_state=0),
    RandomForestRegressor(n_estimators=5, bootstrap=False, max_features=1, random_state=0),
]


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("model", SEARCHED, ids=lambda model: type(model).__name__)
def test_trees_of_extreme_values_match_their_ranks(model, column):
    """Training rows get bit-identical predictions, because splits depend only on the order of values."""
    other = np.random.default_rng(2).normal(size=N_ROWS)
    X = np.column_stack([column.astype(np.float64), other])
    ranks = X.copy()
    is_known = ~np.isnan(column)
    ranks[is_known, 0] = np.unique(column[is_known], return_inverse=True)[1]
    y = other + np.sin(np.nan_to_num(ranks[:, 0]))
    y = (y > 0).astype(int) if is_classifier(model) else y
    said = []
    for table in (X, ranks):
        trees = clone(model).fit(table, y)
        said.append(trees.predict_proba(table) if is_classifier(model) else trees.predict(table))
    np.testing.assert_array_equal(*said)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_extreme_values(name):
    """Of a model of ordinary numbers."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (N_ROWS, 2)) + (0.0 if name == "CategoricalNB" else 0.25)
    model = fitted(name, X, X[:, 0] - X[:, 1] + rng.normal(size=N_ROWS))
    for value in (-np.inf, np.inf, LARGEST, -LARGEST, 1e200, SMALLEST, -0.0, np.nan):
        for row in ([value, 1.25], [value, value]):
            try:
                check_answers(model, np.array([row]))
            except ValueError as error:
                assert "column" in str(error)  # noqa: PT017


# Targets --------------------------------------------------

CRITERIA = ("squared_error", "absolute_error", "poisson")
LEVELS = {"quantile": 0.7, "expectile": 0.7}
LOSSES = ("squared_error", "absolute_error", "huber", *LEVELS, "log_cosh", "poisson", "gamma", "tweedie")
LOSSES += ("normal", "student_t", "gamma_dist")  # means of skewed distributions may be far above all targets
REGRESSORS = {
    **{f"tree, {c}": DecisionTreeRegressor(criterion=c) for c in CRITERIA},
    **{f"forest, {c}": RandomForestRegressor(3, criterion=c, random_state=0) for c in CRITERIA},
    **{f"extra trees, {c}": ExtraTreesRegressor(3, criterion=c, random_state=0) for c in CRITERIA},
    "random thresholds": DecisionTreeRegressor(splitter="random", random_state=0),
    "averaged forest": RandomForestRegressor(3, averaging="posterior", random_state=0),
    "Bayesian tree": BayesTreeRegressor(random_state=0),
    **{
        f"boosting, {loss}": GradientBoostingRegressor(n_estimators=3, loss=loss, quantile=LEVELS.get(loss))
        for loss in LOSSES
    },
    **{f"AdaBoost, {x}": AdaBoostRegressor(n_estimators=3, loss=x) for x in ("linear", "square", "exponential")},
    "AdaBoost of trees": AdaBoostRegressor(DecisionTreeRegressor(max_depth=2), n_estimators=3, random_state=0),
    "stump": DecisionStumpRegressor(),
    "bagging": BaggingRegressor(n_estimators=3, random_state=0),
    "voting": VotingRegressor(random_state=0),
    "stack": StackingRegressor(random_state=0),
    "cascade": CascadeForestRegressor(random_state=0),
    "conformal": ConformalRegressor(random_state=0),
}
SHARE = np.linspace(0.1, 1.0, N_ROWS)
TINY = {"1e-308": 1e-308 * SHARE, "5e-324": SMALLEST * np.rint(4 * SHARE + 1), "1e-160": 1e-160 * SHARE}
GOOD = {
    "1e30": 1e30 * SHARE,
    "1e18": 1e18 * SHARE,
    "1e-30": 1e-30 * SHARE,
    "one tiny": np.where(SHARE < 0.11, 1e-308, SHARE),
    "one value": np.full(N_ROWS, 2.0),
    "one huge value": np.full(N_ROWS, 1e30),
    "one tiny value": np.full(N_ROWS, 1e-308),
    "one subnormal value": np.full(N_ROWS, SMALLEST),
    **TINY,
}
TOO_LARGE = {
    "1e308": 1e308 * SHARE,
    "one of 1e308": np.where(SHARE == 1.0, 1e308, SHARE),
    "one value": np.full(N_ROWS, 1.7e308),
    "1e31": 1e31 * SHARE,
}


@pytest.mark.slow
@pytest.mark.parametrize("y", GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_targets_of_any_size_that_is_allowed(kind, y):
    """Predictions are between the targets."""
    model = clone(REGRESSORS[kind])
    X = np.column_stack([SHARE, np.random.default_rng(0).normal(size=N_ROWS)])
    found = model.fit(X, y).predict(X)
    slack = 1e-6 * y.max() + 0.5 * (y.max() - y.min()) + 1e-150
    assert np.isfinite(found).all()
    assert y.min() - slack <= found.min()
    assert found.max() <= y.max() + slack
    if hasattr(model, "feature_importances_"):
        assert np.isfinite(model.feature_importances_).all()


@pytest.mark.parametrize("y", GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("loss", ["weibull", "lognormal"])
def test_medians_of_skewed_distributions_are_between_the_targets(loss, y):
    """Means are finite, but may be far above all targets."""
    X = np.column_stack([SHARE, np.random.default_rng(0).normal(size=N_ROWS)])
    model = GradientBoostingRegressor(loss, n_estimators=3).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    found, slack = model.predict_quantiles(X, [0.5]), 1e-6 * y.max() + 0.5 * (y.max() - y.min()) + 1e-150
    assert y.min() - slack <= found.min()
    assert found.max() <= y.max() + slack
    assert np.isfinite(model.sample(X, 3, random_state=0)).all() or y is GOOD["one tiny"]


@pytest.mark.parametrize("scale", [1e30, 1e18, 1e-20, 1e-30])
@pytest.mark.parametrize(
    "kind", ["tree, squared_error", "extra trees, squared_error", "boosting, squared_error", "stump"]
)
def test_models_of_scaled_targets_are_scaled(kind, scale):
    """So that no scale that is allowed makes a difference: predictions, importances."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1])
    scale = 2.0 ** np.floor(np.log2(scale / 4))
    plain, scaled = (clone(REGRESSORS[kind]).fit(X, target) for target in (y, scale * y))
    np.testing.assert_allclose(scaled.predict(X) / scale, plain.predict(X), rtol=1e-4, atol=1e-4)
    if hasattr(plain, "feature_importances_"):
        np.testing.assert_allclose(scaled.feature_importances_, plain.feature_importances_, atol=1e-4)


@pytest.mark.parametrize("y", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_targets_that_are_too_large(kind, y):
    """The error blames y, and says how large it may be."""
    with pytest.raises(ValueError, match=r"^y must lie between -1e\+30 and 1e\+30; it holds 1(\.\d*)?e\+3\d+\. Divide"):
        clone(REGRESSORS[kind]).fit(np.column_stack([SHARE, SHARE]), y)
