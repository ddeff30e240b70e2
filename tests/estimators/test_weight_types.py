"""What sample weights mean: copies of rows or influence, in every estimator, and no row both fitted and held out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold

import fastens
from reference.public_estimators import CLASSES, make, shrink_default_members, table_for

DECIDES = [name for name in CLASSES if "weight_type" in make(name).get_params(deep=False)]
# `sample_weight` of these is a number of copies or a count, whatever its size.
COUNTS = [
    *("BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MixedNB", "MultinomialNB"),
    *("TextClassifier", "VersionSpaceClassifier", "FiniteHypothesisLearner"),
]
SMALL = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
SURVEY = np.random.default_rng(3).integers(200, 3001, 300).astype(float)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 5)


def small(name, **more):
    known = make(name).get_params(deep=False)
    return make(name, **{key: value for key, value in (SMALL | more).items() if key in known})


def fitted(name, weight=None, **more):
    X, *y = table_for(name)
    n_rows = len(X)
    return small(name, **more).fit(X, *y, **({} if weight is None else {"sample_weight": np.full(n_rows, weight)}))


def answers(model, X):
    methods = ("predict_proba", "decision_function", "predict", "transform", "score_samples")
    found = getattr(model, next(name for name in methods if hasattr(model, name)))(X)
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def noisy(n_rows=300, n_new=2000, noise=1.0):
    X, y = make_friedman1(n_rows + n_new, noise=noise, random_state=0)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def covered(model, X, y):
    low, high = model.predict_interval(X, 0.9).T
    return float(((low <= y) & (y <= high)).mean())


def test_every_estimator_says_what_weights_mean():
    assert {*DECIDES} | {*COUNTS} == {*CLASSES} - {"TableEncoder"}  # it has no weights


@pytest.mark.parametrize("name", DECIDES)
def test_constant_importance_weights_are_not_weights(name):
    X = table_for(name)[0]
    expected = answers(fitted(name), X)
    for weight in (1000.0, 1000.5, 0.3):
        assert_array_equal(answers(fitted(name, weight, weight_type="importance"), X), expected)
    with pytest.warns(UserWarning, match="which is too large for frequencies, so its values are used as"):
        found = fitted(name, 1000.0)
    assert_array_equal(answers(found, X), expected)


@pytest.mark.parametrize("name", [name for name in CLASSES if hasattr(CLASSES[name], "score")])
@pytest.mark.filterwarnings("ignore")
def test_models_of_constant_weights_are_as_good(name):
    """Scores of R2 .592 for .850, and log losses of .529 for .416, came from weights of 1000."""
    X, *y = table_for(name)
    expected = fitted(name).score(X, *y)
    for weight in (2, 1000):
        assert fitted(name, weight).score(X, *y) > expected - 0.15


@pytest.mark.parametrize(
    "model",
    [
        fastens.RandomForestRegressor(30, n_jobs=1, random_state=0),
        fastens.ExtraTreesRegressor(30, bootstrap=True, n_jobs=1, random_state=0),
        fastens.BaggingRegressor(n_estimators=30, n_jobs=1, random_state=0),
        fastens.BaggingRegressor(Ridge(), n_estimators=5, n_jobs=1, random_state=0),
        fastens.BayesTreeRegressor(n_jobs=1),
        fastens.GradientBoostingRegressor(n_estimators=30, n_jobs=1),
        fastens.VotingRegressor([("forest", fastens.RandomForestRegressor(10, n_jobs=1, random_state=0))], n_jobs=1),
    ],
)
def test_survey_weights_and_their_shares_give_one_model(model):
    X, y, new, target = noisy()
    with pytest.warns(UserWarning, match="weight_type"):
        of_counts = clone(model).fit(X, y, sample_weight=SURVEY)
    of_shares = clone(model).fit(X, y, sample_weight=SURVEY / SURVEY.sum())
    assert_allclose(of_counts.predict(new), of_shares.predict(new), rtol=1e-3)
    assert of_counts.score(new, target) > clone(model).fit(X, y).score(new, target) - 0.05


@pytest.mark.filterwarnings("ignore")
def test_bags_of_large_weights_leave_rows_out():
    X, y, new, _ = noisy()
    plain, found = (
        fastens.RandomForestRegressor(50, n_jobs=1, oob_score=True, random_state=0).fit(X, y, weight)
        for weight in (None, np.full(300, 1000))
    )
    assert found.oob_score_ == plain.oob_score_
    assert_array_equal(found.predict_variance(new[:50]), plain.predict_variance(new[:50]))
    importances = found.oob_permutation_importance(X, y, np.full(300, 1000)).importances_mean
    assert importances.max() > 1
    assert_array_equal(importances, plain.oob_permutation_importance(X, y).importances_mean)


FOREST = fastens.RandomForestRegressor(20, n_jobs=1, random_state=0)
COVERING = {
    "held-out rows": fastens.ConformalRegressor(FOREST, method="constant", random_state=0, n_jobs=1),
    "local errors": fastens.ConformalRegressor(FOREST, random_state=0, n_jobs=1),
    "folds": fastens.ConformalRegressor(FOREST, method="constant", cv=KFold(5), n_jobs=1),
    "out of bag": fastens.RandomForestRegressor(200, oob_score=True, n_jobs=1, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COVERING)
@pytest.mark.filterwarnings("ignore")
def test_constant_weights_do_not_change_the_coverage(name):
    """Weights of 2 covered .62 and weights of 1000 nothing where 90 % were asked for."""
    X, y, new, target = noisy()
    plain = covered(clone(COVERING[name]).fit(X, y), new, target)
    assert plain > 0.87
    cases = [(2, "auto"), (1000, "auto"), (0.5, "auto"), (1000, "importance")]
    for weight, weight_type in [*cases, *([(1000, "frequency")] if name != "out of bag" else [])]:
        model = clone(COVERING[name]).set_params(weight_type=weight_type)
        found = covered(model.fit(X, y, sample_weight=np.full(300, weight)), new, target)
        assert plain - 0.03 < found < plain + 0.05  # copies are in more bags, so fewer trees leave them out


@pytest.mark.parametrize("kind", [fastens.ConformalClassifier, fastens.ConformalRegressor])
@pytest.mark.parametrize("weight", [1, 2, 9])
def test_no_row_is_fitted_and_held_out(kind, weight, rng):
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    seen = []

    class Noting(LogisticRegression if kind is fastens.ConformalClassifier else Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append((X, sample_weight))
            return super().fit(X, y, sample_weight)

    kind(Noting(), random_state=0, **({} if kind is fastens.ConformalClassifier else {"method": "constant"})).fit(
        X, y, sample_weight=np.full(100, weight)
    )
    [(rows, given)] = seen
    assert len(np.unique(rows, axis=0)) == len(rows) == 80
    assert_array_equal(given, np.full(80, weight))


def test_weights_that_are_not_whole_are_not_frequencies():
    X, y = load_iris(return_X_y=True)
    model = fastens.RandomForestClassifier(2, weight_type="frequency")
    with pytest.raises(
        ValueError,
        match=r"sample_weight must hold integers with a sum of at most 2\*\*53 with.*got 0\.5\. Use weight_type=",
    ):
        model.fit(X, y, np.full(150, 0.5))
    with pytest.raises(
        ValueError, match=r"sample_weight must hold integers with a sum of at most 2\*\*53 with.*got a sum of 1\.5e\+22"
    ):
        model.fit(X, y, np.full(150, 1e20))
    with pytest.raises(ValueError, match="weight_type must be one of 'auto', 'frequency', 'importance'; got 'copies'"):
        model.set_params(weight_type="copies").fit(X, y)


def test_small_integer_weights_are_copies_by_default(rng):
    X, y = load_iris(return_X_y=True)
    weight = rng.integers(1, 4, 150)
    rows = np.repeat(np.arange(150), weight)
    forest = fastens.RandomForestClassifier(10, random_state=0, n_jobs=1)
    copies = clone(forest).fit(X[rows], y[rows]).predict_proba(X)
    for weight_type in ("auto", "frequency"):
        assert_array_equal(forest.set_params(weight_type=weight_type).fit(X, y, weight).predict_proba(X), copies)
    forest.set_params(weight_type="importance").fit(X, y, weight)
    assert forest.in_bag(0).sum() == 150
    large = clone(forest).set_params(weight_type="frequency").fit(X, y, weight * 1000)
    assert large.in_bag(0).sum() == weight.sum() * 1000


def test_members_count_as_their_ensemble_does():
    X, y, *_ = noisy()
    weight = np.where(np.arange(300) % 2, 1, 3)
    members = [("tree", fastens.DecisionTreeRegressor()), ("set", fastens.BayesTreeRegressor(weight_type="frequency"))]
    for weight_type, expected in (("auto", "frequency"), ("importance", "importance")):
        model = fastens.VotingRegressor(members[:1], weight_type=weight_type).fit(X, y, sample_weight=weight)
        assert model.named_estimators_["tree"].weight_type == expected
    model = fastens.VotingRegressor(members).fit(X, y, sample_weight=weight)
    assert model.named_estimators_["set"].weight_type == "frequency"
    assert fastens.VotingRegressor(members[:1]).fit(X, y).named_estimators_["tree"].weight_type == "auto"
    bags = fastens.BaggingRegressor(fastens.BayesTreeRegressor(), 2, random_state=0).fit(X, y, weight / 7)
    assert {member.weight_type for member in bags.estimators_} == {"frequency"}  # of draws


def test_other_libraries_get_weights_as_given():
    X, y, *_ = noisy()
    for weight in (np.linspace(0.5, 3, 300), np.full(300, 0.01)):
        model = fastens.VotingRegressor([("ridge", Ridge(10.0))]).fit(X, y, sample_weight=weight)
        assert_allclose(model.predict(X), Ridge(10.0).fit(X, y, weight).predict(X), rtol=1e-9)


def test_the_parameter_is_saved_cloned_and_set(tmp_path):
    X, y, *_ = noisy()
    model = clone(fastens.RandomForestRegressor(3, weight_type="importance", n_jobs=1)).fit(X, y, SURVEY)
    model.save(tmp_path / "model")
    assert fastens.load(tmp_path / "model").weight_type == "importance"
    with pytest.warns(UserWarning, match="weight_type"):
        model.set_params(weight_type="auto").fit(X, y, SURVEY)


@pytest.mark.parametrize("kind", [fastens.RandomForestClassifier, fastens.GradientBoostingClassifier])
def test_balanced_classes_do_not_depend_on_the_order_of_rows(kind, rng):
    from fastens.table.training_data import class_factors

    X, y = load_iris(return_X_y=True)
    weight, order = rng.random(150) * 10.0 ** rng.integers(-9, 9, 150), rng.permutation(150)
    classes = np.arange(3)
    one, other = (class_factors("balanced", classes, y[rows], weight[rows]) for rows in (np.arange(150), order))
    assert_array_equal(one, other)
    totals = [weight[y == k].sum() for k in range(3)]
    assert_allclose(one, np.sum(totals) / (3 * np.array(totals)), rtol=1e-12)
    model = kind(n_estimators=5, class_weight="balanced", random_state=0, n_jobs=1)
    found = [clone(model).fit(X[rows], y[rows], weight[rows]).predict_proba(X) for rows in (np.arange(150), order)]
    assert_allclose(*found, rtol=1e-9)


HOLDS_OUT = {
    "forest": fastens.RandomForestRegressor(20, oob_score=True, random_state=0, n_jobs=1),
    "bags": fastens.BaggingRegressor(Ridge(), oob_score=True, random_state=0, n_jobs=1),
    "conformal": fastens.ConformalRegressor(Ridge(), method="constant", random_state=0),
    "conformal folds": fastens.ConformalRegressor(Ridge(), method="constant", cv=3),
    "early stopping": fastens.GradientBoostingRegressor(n_estimators=5, early_stopping=True, n_jobs=1, random_state=0),
    "folds": fastens.GradientBoostingRegressor(
        n_estimators=5, early_stopping=fastens.EarlyStopping(folds=3), n_jobs=1, random_state=0
    ),
    "stack": fastens.StackingRegressor([("ridge", Ridge())], cv=3),
}


@pytest.mark.parametrize("name", HOLDS_OUT)
def test_duplicates_of_continuous_rows_are_warned_of(name, rng):
    X, y, *_ = noisy(200)
    rows = rng.permutation(np.tile(np.arange(200), 2))
    with pytest.warns(UserWarning, match=r"X and y hold exact duplicates \(50% of the rows\)"):
        clone(HOLDS_OUT[name]).fit(X[rows], y[rows])
    discrete = rng.integers(0, 3, (400, 2)).astype(float)
    for table, target in ((X, y), (discrete, discrete[:, 0])):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*duplicates")
            clone(HOLDS_OUT[name]).fit(table, target)


@pytest.mark.parametrize("weight", [SURVEY[:120], np.full(120, 1000.0), np.linspace(0.1, 7, 120)])
def test_ranks_count_weights_as_one(weight):
    from reference.rank_fits import fit_on_ranks

    X, y, *_ = noisy(120)

    def make():
        return fastens.RandomForestRegressor(4, random_state=0, n_jobs=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = make().fit(X, y, weight)
        for model in fit_on_ranks(2, make, y, weight, X):
            assert_array_equal(model.predict(X), alone.predict(X))
