"""AdaBoost of given estimators: our trees on the engine's path, others saved with the model."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

import fastens
from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    MixedNB,
    RandomForestClassifier,
    TextClassifier,
)


@pytest.fixture(scope="module")
def tumours():
    return load_breast_cancer(return_X_y=True)


@pytest.mark.parametrize("algorithm", ["discrete", "real"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_own_trees_match_max_depth(algorithm, warm_start, tumours):
    X, y = tumours
    options = {"n_estimators": 12, "algorithm": algorithm, "warm_start": warm_start}
    given = AdaBoostClassifier(DecisionTreeClassifier(max_depth=3, max_bins=255), **options).fit(X, y)
    same = AdaBoostClassifier(max_depth=3, **options).fit(X, y)
    np.testing.assert_array_equal(given.decision_function(X), same.decision_function(X))
    np.testing.assert_array_equal(given.feature_importances_, same.feature_importances_)
    for trees in (given, same):
        assert len(trees.estimators_) == len(trees) == 12
        assert trees[0].get_depth() <= 3
        assert [tree.random_state for tree in trees] == list(range(12))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("max_depth", [1, 2])
def test_trees_by_themselves_vote_as_they_do_together(n_classes, max_depth):
    X, y = make_classification(300, n_informative=4, n_classes=n_classes, random_state=0)
    model = AdaBoostClassifier(max_depth=max_depth, n_estimators=8).fit(X, y)
    votes = sum(
        weight * (tree.predict(X)[:, None] == model.classes_)
        for tree, weight in zip(model, model.estimator_weights_, strict=True)
    )
    found = model.decision_function(X)
    np.testing.assert_allclose(votes[:, 1] - votes[:, 0] if n_classes == 2 else votes, found, rtol=1e-6, atol=1e-6)
    assert [tree.random_state for tree in model[:2]] == [0, 1]


def test_newton_steps_have_no_weak_classifiers(tumours):
    model = AdaBoostClassifier(algorithm="logit", n_estimators=3).fit(*tumours)
    assert len(model) == 3
    with pytest.raises(AttributeError, match="no weak classifiers with algorithm='logit'"):
        model.estimators_  # noqa: B018


def test_regressors_by_themselves():
    X, y = load_diabetes(return_X_y=True)
    model = AdaBoostRegressor(n_estimators=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(model[0].predict(X), model.predict(X), rtol=1e-12)
    assert len(AdaBoostRegressor(Ridge(), n_estimators=3, random_state=0).fit(X, y)) == 3


@pytest.mark.parametrize(("kind", "last"), [(AdaBoostClassifier, GaussianNB()), (AdaBoostRegressor, Ridge())])
def test_estimators_that_ask_for_columns_by_name(kind, last, rng):
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["age", "height"])
    columns = ColumnTransformer([("scaled", StandardScaler(), ["age"])])
    with pytest.raises(ValueError, match="estimator must accept numeric arrays, because AdaBoost converts data"):
        kind(make_pipeline(columns, last)).fit(X, X["age"] > 0)
    by_number = ColumnTransformer([("scaled", StandardScaler(), [0])])
    kind(make_pipeline(by_number, last), n_estimators=2).fit(X, X["age"] > 0)


def test_a_fit_that_fails_leaves_trees_whatever_the_estimator():
    X, y = load_diabetes(return_X_y=True)
    for first, second in ((None, Ridge()), (Ridge(), None)):
        model = AdaBoostRegressor(first, n_estimators=2, random_state=0).fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="same number of rows"):
            model.set_params(estimator=second).fit(X, y[1:])
        np.testing.assert_array_equal(model.predict(X), before)
        np.testing.assert_array_equal(list(model.staged_predict(X))[-1], before)


@pytest.mark.parametrize("estimators", [(None, GaussianNB()), (GaussianNB(), None)])
def test_warm_start_continues_with_the_estimator(estimators, tumours):
    X, y = tumours
    model = AdaBoostClassifier(estimators[0], n_estimators=2, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"estimator must be None .* in both fits or in neither with"):
        model.set_params(estimator=estimators[1], n_estimators=4).fit(X, y)


@pytest.mark.parametrize("algorithm", ["discrete", "real"])
def test_margins_of_our_trees(algorithm, tumours):
    X, y = tumours
    model = AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=2, max_bins=255), n_estimators=4, algorithm=algorithm
    ).fit(X, y)
    same = AdaBoostClassifier(max_depth=2, n_estimators=4, algorithm=algorithm).fit(X, y)
    np.testing.assert_array_equal(model.margins(X, y), same.margins(X, y))


@pytest.mark.parametrize("method", ["apply", "leaf_features", "importances", "to_text", "to_dataframe", "plot_tree"])
def test_other_estimators_have_no_trees_to_show(method, tumours):
    X, y = tumours
    model = AdaBoostClassifier(GaussianNB(), n_estimators=2).fit(X, y)
    given = {"apply": [X], "leaf_features": [X], "importances": ["split"]}.get(method, [])
    with pytest.raises(ValueError, match=r"estimator must be None or a fastens\.DecisionTreeClassifier, so that"):
        getattr(model, method)(*given)
    if method == "leaf_features":
        with pytest.raises(ValueError, match="estimator must be None"):
            AdaBoostRegressor(Ridge(), n_estimators=2).fit(X, y).leaf_features(X)


def test_random_features_differ_between_rounds(tumours):
    X, y = tumours
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1, max_features=1), n_estimators=20).fit(X, y)
    root = model._ensemble.feature[model._ensemble.node_offsets[:-1]]
    assert len(set(root)) > 5
    assert model.score(X, y) > 0.9


def test_other_parameters_take_the_way_of_any_estimator(tumours):
    X, y = tumours
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2, ccp_alpha=0.01), n_estimators=4).fit(X, y)
    assert len(model.estimators_) == model.n_estimators_
    assert model.estimators_[0].ccp_alpha == 0.01


@pytest.mark.parametrize("algorithm", ["discrete", "real"])
def test_saving_of_given_estimators(algorithm, tumours, tmp_path):
    X, y = tumours
    path = tmp_path / "model.fastens"
    ours = DecisionTreeClassifier(max_depth=1, ccp_alpha=0.001)
    model = AdaBoostClassifier(ours, n_estimators=5, algorithm=algorithm).fit(X, y)
    model.save(path)
    same = fastens.load(path)
    np.testing.assert_array_equal(same.decision_function(X), model.decision_function(X))
    foreign = AdaBoostClassifier(GaussianNB(), n_estimators=2, algorithm=algorithm).fit(X, y)
    with pytest.raises(TypeError, match="allow_pickle=True"):
        foreign.save(path)
    foreign.save(path, allow_pickle=True)
    same = fastens.load(path, allow_pickle=True)
    np.testing.assert_array_equal(same.decision_function(X), foreign.decision_function(X))


def test_saving_of_given_regressors(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    path = tmp_path / "model.fastens"
    model = AdaBoostRegressor(DecisionTreeRegressor(max_depth=2), n_estimators=4, random_state=0).fit(X, y)
    model.save(path)
    np.testing.assert_array_equal(fastens.load(path).predict(X), model.predict(X))
    foreign = AdaBoostRegressor(LinearRegression(), n_estimators=3, random_state=0).fit(X, y)
    foreign.save(path, allow_pickle=True)
    np.testing.assert_array_equal(fastens.load(path, allow_pickle=True).predict(X), foreign.predict(X))


@pytest.mark.slow
def test_trees_of_more_nodes_than_sixteen_bits_can_count(rng):
    X = rng.uniform(size=(150_000, 3))
    y = rng.integers(0, 2, 150_000)
    model = AdaBoostClassifier(n_estimators=1, max_depth=30).fit(X, y)
    assert 32_000 < model._ensemble.n_leaves[0] <= 2**15
    assert model.estimator_errors_[0] == pytest.approx((model.predict(X) != y).mean(), abs=1e-3)


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
def test_integer_weights_are_copies_for_estimators_with_penalties(kind, resample, rng):
    X, weight = rng.normal(size=(60, 3)), rng.integers(0, 4, 60)
    y, estimator = X[:, 0] + rng.normal(size=60), Ridge(alpha=30.0)
    if kind is AdaBoostClassifier:
        y, estimator = (y > 0.3).astype(int), LogisticRegression(C=0.01)
    model = kind(estimator, n_estimators=4, resample=resample, random_state=0)
    errors = model.fit(X, y, sample_weight=weight).estimator_errors_
    rows = np.repeat(np.arange(60), weight)
    np.testing.assert_allclose(errors, model.fit(X[rows], y[rows]).estimator_errors_, rtol=1e-9)


@pytest.mark.parametrize("estimator", [MixedNB(), DecisionTreeClassifier(max_depth=1, ccp_alpha=0.001)])
def test_estimators_of_fastens_receive_the_categorical_columns(estimator, rng):
    places = rng.integers(0, 8, 300)
    y = np.isin(places, [0, 3, 5])
    X = pd.DataFrame({"size": rng.normal(size=300), "kind": pd.Categorical(np.array(list("abcdefgh"))[places])})
    model = AdaBoostClassifier(estimator, n_estimators=1).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), clone(estimator).fit(X, y).predict(X))
    tree = DecisionTreeRegressor(max_depth=1)
    model = AdaBoostRegressor(tree, n_estimators=1, resample=False).fit(X, y * 1.0)
    np.testing.assert_array_equal(model.predict(X), tree.fit(X, y * 1.0).predict(X))


def test_estimators_in_the_given_one_are_seeded_too(tumours):
    X, y = tumours
    model = AdaBoostClassifier(make_pipeline(RandomForestClassifier(2)), n_estimators=2, random_state=0)
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), model.fit(X, y).decision_function(X))


def test_estimators_of_texts_are_refused():
    X = pd.DataFrame({"text": ["good", "bad", "good", "bad"]})
    with pytest.raises(
        ValueError, match=r"estimator must accept numeric tables, because AdaBoost encodes text.*got TextClassifier"
    ):
        AdaBoostClassifier(TextClassifier()).fit(X, [1, 0, 1, 0])


# Rows drawn in each round --------------------------------------------------

DRAWING = [
    AdaBoostClassifier(KNeighborsClassifier(3), n_estimators=4, random_state=0),
    AdaBoostRegressor(KNeighborsRegressor(3), n_estimators=4, random_state=0),
    AdaBoostClassifier(GaussianNB(), n_estimators=4, resample=True, random_state=0),
    AdaBoostRegressor(Ridge(), n_estimators=4, random_state=0),
]


@pytest.mark.parametrize("model", DRAWING, ids=str)
def test_members_are_fitted_to_their_samples(model, tumours):
    X, y = tumours
    y = y if hasattr(model, "predict_proba") else X[:, 3]
    model.fit(X, y)
    assert len(model.estimators_samples_) == len(model) == 4
    for member, rows in zip(model, model.estimators_samples_, strict=True):
        assert rows.dtype == np.int32
        assert len(rows) == len(y)
        takes_weights = has_fit_parameter(member, "sample_weight")
        counts = np.bincount(rows, minlength=len(y))
        again = clone(member).fit(X, y, counts) if takes_weights else clone(member).fit(X[rows], y[rows])
        np.testing.assert_allclose(again.predict(X), member.predict(X), rtol=1e-9)


@pytest.mark.parametrize("max_depth", [1, 3])
def test_members_grown_on_shared_bins_are_fitted_to_their_samples(max_depth, rng):
    X, y = rng.integers(0, 20, (200, 4)) * 1.0, rng.integers(0, 2, 200)  # few values, so bins do not depend on the draw
    model = AdaBoostClassifier(max_depth=max_depth, n_estimators=5, resample=True, random_state=1).fit(X, y)
    for member, rows in zip(model, model.estimators_samples_, strict=True):
        right = np.mean(member.predict(X[rows]) == y[rows])
        again = DecisionTreeClassifier(max_depth=max_depth).fit(X[rows], y[rows])
        assert right == pytest.approx(np.mean(again.predict(X[rows]) == y[rows]), abs=0.02)
        assert right > np.mean(member.predict(X) == y) - 0.02


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
def test_samples_are_rows_of_the_table_passed_to_fit(kind, tumours):
    X, y = tumours
    weight = np.arange(len(y)) % 3
    model = kind(n_estimators=3, resample=True, random_state=0).fit(X, y, weight)
    for rows in model.estimators_samples_:
        assert len(rows) == weight.sum()
        assert weight[rows].all()
    samples = [rows.tolist() for rows in model.estimators_samples_]
    assert [rows.tolist() for rows in pickle.loads(pickle.dumps(model)).estimators_samples_] == samples
    order = np.random.default_rng(0).permutation(len(y))
    again = clone(model).fit(X[order], y[order], weight[order]).estimators_samples_
    assert [np.sort(order[rows]).tolist() for rows in again] == samples


def test_rows_drawn_very_often():
    weight = np.r_[np.ones(9), 4000]
    model = AdaBoostRegressor(n_estimators=2, weight_type="frequency", random_state=0)
    rows = model.fit(np.arange(10.0)[:, None], np.arange(10.0) ** 2, weight).estimators_samples_[0]
    assert len(rows) == 4009
    assert np.bincount(rows)[9] > 3900


def test_samples_leave_validation_rows_out(tumours):
    X, y = tumours
    model = AdaBoostClassifier(n_estimators=30, resample=True, early_stopping=True, random_state=0).fit(X, y)
    assert len(model.estimators_samples_) == len(model)
    drawn = np.unique(np.concatenate(model.estimators_samples_))
    assert len(model.estimators_samples_[0]) < len(y)
    assert len(drawn) <= len(model.estimators_samples_[0])


def test_samples_after_a_warm_start(tumours):
    X, y = tumours
    whole = AdaBoostClassifier(n_estimators=6, resample=True, random_state=0).fit(X, y)
    model = AdaBoostClassifier(n_estimators=3, resample=True, random_state=0, warm_start=True).fit(X, y)
    model.set_params(n_estimators=6).fit(X, y)
    np.testing.assert_array_equal(model.estimators_samples_, whole.estimators_samples_)
    model.set_params(n_estimators=8).fit(X[:-1], y[:-1])
    with pytest.raises(AttributeError, match="not in distributed fits, warm starts on other rows"):
        _ = model.estimators_samples_


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
def test_models_without_samples(kind, tumours, tmp_path):
    X, y = tumours
    model = kind(n_estimators=2, resample=False).fit(X, y)
    with pytest.raises(AttributeError, match=r"needs rounds that are fitted to drawn rows\. Use resample=True"):
        _ = model.estimators_samples_
    model.set_params(resample=True).fit(X, y).save(tmp_path / "model")
    assert len(model.estimators_samples_) == 2
    with pytest.raises(AttributeError, match="and saved files"):
        _ = fastens.load(tmp_path / "model").estimators_samples_
    assert not hasattr(AdaBoostClassifier(algorithm="gentle", n_estimators=2).fit(X, y), "estimators_samples_")


class _FormatOfRows:
    def fit(self, X, y, sample_weight=None):
        self.format = X.format
        return super().fit(X, y, sample_weight)


class _Classifier(_FormatOfRows, LogisticRegression):
    pass


class _Regressor(_FormatOfRows, Ridge):
    pass


@pytest.mark.parametrize("kind", [AdaBoostClassifier, AdaBoostRegressor])
@pytest.mark.parametrize("weighted", [False, True])
def test_columnwise_matrices_stay_columnwise(kind, weighted, rng):
    X = sparse.random_array((100, 5), density=0.4, format="csc", rng=rng)
    y, weight = (X.sum(axis=1) > 1).astype(int), rng.integers(0, 3, 100) if weighted else None
    for given, wanted in ((X, "csc"), (sparse.csc_matrix(X), "csc"), (X.tocsr(), "csr"), (X.tocoo(), "csr")):
        member = _Classifier() if kind is AdaBoostClassifier else _Regressor()
        model = kind(member, n_estimators=2).fit(given, y, weight)
        assert {each.format for each in model.estimators_} == {wanted}
    own = DecisionTreeClassifier if kind is AdaBoostClassifier else DecisionTreeRegressor
    for estimator in (None, own(max_depth=2)):
        models = (kind(estimator, n_estimators=5, random_state=0) for _ in range(2))
        by_column, by_row = (model.fit(given, y, weight) for model, given in zip(models, (X, X.tocsr()), strict=True))
        np.testing.assert_array_equal(by_column.predict(X), by_row.predict(X))
