"""Bagging: bags, weights, out-of-bag estimates, uncertainty, and trees on the engine's path."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn import ensemble as peers
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier as OtherTree

import fastens
from fastens import BaggingClassifier, BaggingRegressor, DecisionTreeClassifier, DecisionTreeRegressor


@pytest.fixture(scope="module")
def tumours():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def patients():
    return load_diabetes(return_X_y=True, as_frame=True)


MODELS = {
    "trees": BaggingClassifier(n_estimators=20, random_state=0),
    "other trees": BaggingClassifier(OtherTree(), n_estimators=20, random_state=0),
    "pipelines": BaggingClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0),
    "neighbours": BaggingClassifier(KNeighborsClassifier(), max_features=0.5, random_state=0),
    "subsamples": BaggingClassifier(OtherTree(), bootstrap=False, max_samples=0.5, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_threads_and_one_at_a_time(name, tumours):
    X, y = tumours
    model = MODELS[name]
    one, two = (fastens.BaggingClassifier(**(model.get_params(deep=False) | {"n_jobs": n})).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.score(X, y) > 0.93
    few = BaggingClassifier(**(model.get_params(deep=False) | {"n_estimators": 4, "warm_start": True})).fit(X, y)
    grown = few.set_params(n_estimators=model.n_estimators).fit(X, y)
    np.testing.assert_array_equal(grown.predict_proba(X), one.predict_proba(X))
    same = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(same.predict(X), one.predict(X))


@pytest.mark.parametrize("name", ["trees", "other trees", "subsamples"])
def test_weights_are_repetition(name, rng):
    X, y = load_iris(return_X_y=True)
    weight = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    model = MODELS[name].set_params(n_estimators=8)
    weighted = model.fit(X, y, sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(model.fit(X[rows], y[rows]).predict_proba(X), weighted, rtol=1e-12)


@pytest.mark.parametrize("options", [{"max_samples": 0.5}, {"max_features": 2}], ids=str)
@pytest.mark.parametrize("sampling", ["auto", "rows"])
def test_weights_without_replacement_under_metadata_routing(sampling, options, rng):
    X, y = load_iris(return_X_y=True)
    weight = rng.random(len(y))
    members = LogisticRegression(max_iter=1000)
    model = BaggingClassifier(members, 2, bootstrap=False, sampling=sampling, random_state=0, **options)
    expected = model.fit(X, y, weight).predict_proba(X)
    with config_context(enable_metadata_routing=True):
        members.set_fit_request(sample_weight=True)
        np.testing.assert_array_equal(model.fit(X, y, weight).predict_proba(X), expected)


def test_bags_are_bootstrap_samples(tumours):
    X, y = tumours
    model = BaggingClassifier(KNeighborsClassifier(), n_estimators=30, random_state=1).fit(X, y)
    counts = np.array([model.in_bag(member) for member in range(30)])
    assert (counts.sum(axis=1) == len(y)).all()
    assert (counts == 0).mean() == pytest.approx((1 - 1 / len(y)) ** len(y), abs=0.01)
    half = BaggingClassifier(OtherTree(), n_estimators=3, bootstrap=False, max_samples=100, random_state=1).fit(X, y)
    counts = np.array([half.in_bag(member) for member in range(3)])
    assert counts.max() == 1
    assert (counts.sum(axis=1) == 100).all()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [None, OtherTree(), LogisticRegression(max_iter=5000)])
def test_out_of_bag_score_matches_new_rows(estimator, tumours):
    X, y = tumours
    X = StandardScaler().fit_transform(X)
    train = np.arange(len(y)) % 2 == 0
    model = BaggingClassifier(estimator, 60, oob_score=True, random_state=0).fit(X[train], y[train])
    assert model.oob_score_ == pytest.approx(model.score(X[~train], y[~train]), abs=0.05)
    assert model.oob_decision_function_.shape == (train.sum(), 2)
    own = model.set_params(oob_score=lambda y, found: 7.0).fit(X, y)
    assert own.oob_score_ == 7.0


def test_out_of_bag_rows_by_hand(patients):
    X, y = patients
    model = BaggingRegressor(Ridge(), 5, oob_score=True, random_state=0)
    with pytest.warns(UserWarning, match="in all bags"):
        model.fit(X, y)
    row = 17
    said = [member.predict(X.iloc[[row]])[0] for t, member in enumerate(model.estimators_) if not model.in_bag(t)[row]]
    assert model.oob_prediction_[row] == pytest.approx(np.mean(said))


def test_votes_and_probabilities(tumours):
    X, y = tumours
    hard = BaggingClassifier(OtherTree(max_depth=2), 7, voting="hard", random_state=0).fit(X, y)
    votes = np.mean([member.predict(X) for member in hard.estimators_], axis=0)
    np.testing.assert_allclose(hard.predict_proba(X)[:, 1], votes)
    trees = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 7, voting="hard", random_state=0).fit(X, y)
    votes = np.mean([member.predict(X) for member in trees.estimators_], axis=0)
    np.testing.assert_allclose(trees.predict_proba(X)[:, 1], votes)


@pytest.mark.parametrize("estimator", [None, OtherTree(max_depth=3)])
def test_spread_matches_the_members(estimator, tumours):
    X, y = tumours
    model = BaggingClassifier(estimator, 9, random_state=0).fit(X, y)
    said = np.array([member.predict_proba(X) for member in model.estimators_])
    np.testing.assert_allclose(model.predict_std(X), said.std(axis=0), atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(X), said.mean(axis=0), atol=1e-7)


def test_spread_grows_away_from_the_data(rng):
    X = rng.uniform(-1, 1, size=(60, 1))
    model = BaggingRegressor(LinearRegression(), 50, random_state=0).fit(X, X[:, 0] + rng.standard_normal(60))
    near, far = model.predict_std([[0.0], [10.0]])
    assert far > 4 * near


def test_our_trees_take_the_engines_path(patients):
    X, y = patients
    model = BaggingRegressor(DecisionTreeRegressor(max_depth=4), 12, max_features=0.5, random_state=0).fit(X, y)
    forest = fastens.RandomForestRegressor(
        12, max_depth=4, max_features=None, max_features_per_tree=0.5, random_state=0, max_bins=65_535
    ).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), forest.predict(X))
    assert [len(columns) for columns in model.estimators_features_] == [5] * 12
    for tree, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        assert set(np.flatnonzero(tree.feature_importances_)) <= set(columns)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [None, LinearRegression(), DecisionTreeRegressor(splitter="random"), Ridge()])
@pytest.mark.parametrize("options", [{}, {"max_features": 0.5, "sampling": "rows"}, {"bootstrap": False}], ids=str)
def test_several_targets(patients, tmp_path, estimator, options):
    X, y = patients
    Y = np.column_stack([y, -2 * X["bmi"], y])
    oob = options.get("bootstrap", True)
    model = BaggingRegressor(estimator, 8, oob_score=oob, random_state=0, **options).fit(X, Y)
    each = np.array(
        [
            member.predict(X.iloc[:, columns] if getattr(member, "n_features_in_", 0) < 10 else X)
            for member, columns in zip(model.estimators_, model.estimators_features_, strict=True)
        ]
    )
    np.testing.assert_allclose(model.predict(X), each.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(model.predict_std(X), each.std(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.score(X, Y), r2_score(Y, model.predict(X)))
    if oob:
        known = ~np.isnan(model.oob_prediction_).any(axis=1)
        assert model.oob_score_ == pytest.approx(r2_score(Y[known], model.oob_prediction_[known]))
    model.save(tmp_path / "model", allow_pickle=True)
    same = fastens.load(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    np.testing.assert_allclose(model.predict(X[3:4])[0], model.predict(X)[3], rtol=1e-12)
    with pytest.raises(ValueError, match="explain supports only one target"):
        model.explain(X)
    with pytest.raises(ValueError, match=r"as many targets|number of targets"):
        model.set_params(warm_start=True, n_estimators=9).fit(X, y)
    assert model.set_params(warm_start=False, oob_score=False).fit(X, y).predict(X).shape == y.shape


def test_columns_of_trees_of_warm_starts(patients, tmp_path):
    X, y = patients
    model = BaggingRegressor(n_estimators=4, max_features=3, warm_start=True, random_state=0).fit(X, y)
    first = model.estimators_features_
    model.set_params(n_estimators=6, max_features=7).fit(X, y)
    model.save(tmp_path / "model")
    for same in (model, fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        found = same.estimators_features_
        assert [len(columns) for columns in found] == [3] * 4 + [7] * 2
        np.testing.assert_array_equal(found[:4], first)
        for tree, columns in zip(same.estimators_, found, strict=True):
            assert set(np.flatnonzero(tree.feature_importances_)) <= set(columns)
    model.set_params(warm_start=False, n_estimators=2, max_features=1).fit(X, y)
    assert [len(columns) for columns in model.estimators_features_] == [1, 1]


@pytest.mark.slow
def test_scores_are_as_good_as_other_libraries(patients):
    X, y = patients
    train = np.arange(len(y)) % 3 > 0
    scores = [
        np.mean(
            [
                kind(n_estimators=30, random_state=s).fit(X[train], y[train]).score(X[~train], y[~train])
                for s in range(12)
            ]
        )
        for kind in (BaggingRegressor, peers.BaggingRegressor)
    ]
    assert scores[0] > scores[1] - 0.03


def test_tables_and_columns_by_name(patients):
    X, y = patients
    model = BaggingRegressor(Ridge(), 6, max_features=3, random_state=0).fit(X, y)
    assert list(model.estimators_[0].feature_names_in_) == list(X.columns[model.estimators_features_[0]])
    np.testing.assert_array_equal(model.predict(X[X.columns[::-1]]), model.predict(X))
    mixed = pd.DataFrame({"a": np.arange(60) % 7, "b": pd.Categorical(list("xyz") * 20)})
    labels = np.where(mixed["b"] == "x", "yes", "no")
    assert BaggingClassifier(random_state=0).fit(mixed, labels).score(mixed, labels) == 1


def test_a_bag_of_one_class():
    X, y = np.arange(12.0)[:, None], np.array(["a"] * 11 + ["b"])
    model = BaggingClassifier(LogisticRegression(), 20, random_state=0).fit(X, y)
    assert (model.predict_proba(X).argmax(axis=1) == 0).mean() > 0.8
    assert model.predict_proba(X).shape == (12, 2)


@pytest.mark.slow
def test_nothing_stays_of_members_that_trees_replace(patients):
    X, y = patients
    model = BaggingRegressor(Ridge(), 2).fit(X, y).set_params(estimator=None).fit(X, y)
    assert len(model._members) == 1
    assert not {"_bags", "_rows"} & vars(model).keys()


@pytest.mark.slow
def test_saving(tumours, tmp_path):
    X, y = tumours
    path = tmp_path / "bag.fastens"
    for estimator in (None, fastens.GradientBoostingClassifier(n_estimators=3)):
        model = BaggingClassifier(estimator, 4, oob_score=True, random_state=0)
        with pytest.warns(UserWarning, match="in all bags"):
            model.fit(X, y)
        model.save(path)
        same = fastens.load(path)
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
        assert same.oob_score_ == model.oob_score_
    foreign = BaggingClassifier(LogisticRegression(max_iter=5000), 2, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="allow_pickle=True"):
        foreign.save(path)
    foreign.save(path, allow_pickle=True)
    same = fastens.load(path, allow_pickle=True)
    np.testing.assert_array_equal(same.predict_proba(X), foreign.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "tree"}, "estimator must be an estimator or None; got 'tree'"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1; got 0"),
        ({"bootstrap": False, "oob_score": True}, "oob_score must be False without bootstrap"),
        ({"estimator": OtherTree(), "bootstrap": False, "max_samples": 99_999}, "max_samples must be at most the 569"),
        ({"sampling": "twice"}, "sampling must be one of"),
        ({"estimator": Ridge()}, "must be a classifier"),
    ],
)
def test_errors(options, message, tumours):
    with pytest.raises(ValueError, match=message):
        BaggingClassifier(**options).fit(*tumours)


# Errors bear the bagging's name --------------------------------------------------


@pytest.mark.parametrize("kind", [BaggingClassifier, BaggingRegressor])
@pytest.mark.parametrize("members", ["trees", "others"])
def test_errors_name_the_bagging(kind, members):
    X, y = load_iris(return_X_y=True)
    others = LogisticRegression(max_iter=1000) if kind is BaggingClassifier else Ridge()
    model = kind(None if members == "trees" else others, 2, random_state=0)
    name = kind.__name__
    with pytest.raises(ValueError, match=f"{name} requires y to be passed"):
        model.fit(X, None)
    with pytest.raises(ValueError, match=f"minimum of 1 is required by {name}"):
        model.fit(X[:0].tolist() or np.empty((0, 4)), y[:0])
    with pytest.raises(TypeError, match=rf"{name}\.fit\(\) got an unexpected keyword argument 'colour'"):
        model.fit(X, y, colour="red")
    with pytest.raises(TypeError, match=r"argument 'sample_wieght'\. Did you mean sample_weight\?"):
        model.fit(X, y, sample_wieght=y)
    if members == "trees":  # which would read neither
        with pytest.raises(TypeError, match="unexpected keyword argument 'groups'"):
            model.fit(X, y, groups=y)
    with pytest.raises(ValueError, match=r"y should be a 1d array|array with dim 3"):
        model.fit(X, np.column_stack([y, y]) if kind is BaggingClassifier else np.ones((len(y), 2, 2)))
    with pytest.raises(ValueError, match=f"This {name} instance is not fitted yet"):
        model.predict(X)
    model.fit(X, y)
    for ask in (model.predict, model.predict_std):
        with pytest.raises(ValueError, match=f"X has 3 features, but {name} is expecting 4 features"):
            ask(X[:, :3])
    with pytest.warns(UserWarning, match=f"X has feature names, but {name} was fitted without feature names"):
        model.predict(pd.DataFrame(X, columns=list("abcd")))


def test_more_members_of_another_table():
    """A warm start keeps members that know the columns, classes and way of drawing of the first fit alone."""
    X, y = load_iris(return_X_y=True)
    model = BaggingClassifier(KNeighborsClassifier(), 2, warm_start=True).fit(X, y).set_params(n_estimators=3)
    with pytest.raises(ValueError, match="X has 3 features, but BaggingClassifier is expecting 4 features"):
        model.fit(X[:, :3], y)
    with pytest.raises(ValueError, match="y must hold the classes seen in fit; it holds 7"):
        model.fit(X, np.where(y == 2, 7, y))
    with pytest.raises(
        ValueError, match="bootstrap must be the same as in the last fit, True, with warm_start=True; got False"
    ):
        clone(model).fit(X, y).set_params(bootstrap=False).fit(X, y)
    for changed in ({"estimator": DecisionTreeClassifier()}, {"max_features": 2, "bootstrap_features": True}):
        found = clone(model).set_params(estimator=DecisionTreeClassifier(splitter="random")).fit(X, y)
        with pytest.raises(ValueError, match="estimator must be of the same kind as in the last fit with"):
            found.set_params(n_estimators=4, **changed).fit(X, y)
        assert len(found) == 3
    with pytest.raises(ValueError, match="estimator must be of the same kind as in the last fit with"):
        clone(model).fit(X, y).set_params(estimator=DecisionTreeClassifier()).fit(X, y)
    with pytest.raises(ValueError, match="estimator and voting must be such that members use"):
        clone(model).fit(X, y).set_params(voting="hard").fit(X, y)
    assert model.fit(X[y < 2], y[y < 2]).predict_proba(X).shape == (150, 3)


def test_bags_that_fit_has_not_drawn(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = BaggingClassifier(LogisticRegression(max_iter=1000), 2, bootstrap=False).fit(X, y)
    with pytest.raises(ValueError, match="in_bag needs bags that fit has drawn"):
        model.in_bag(0)
    model = BaggingClassifier(LogisticRegression(max_iter=1000), 2).fit(X, y)
    model.save(tmp_path / "bags.fastens", allow_pickle=True)
    with pytest.raises(ValueError, match="in_bag needs bags that fit has drawn; here every bag has all rows, or"):
        fastens.load(tmp_path / "bags.fastens", allow_pickle=True).in_bag(0)


def test_large_weights_without_replacement(rng):
    """Weights are numbers of copies, of which none is made."""
    X = rng.normal(size=(150, 2))
    y = X[:, 0] > 0
    model = BaggingClassifier(
        LogisticRegression(), 2, bootstrap=False, max_samples=0.5, weight_type="frequency", random_state=0
    )
    counts = model.fit(X, y, sample_weight=np.full(150, 1e12)).in_bag(0)
    np.testing.assert_allclose(counts, 5e11, rtol=1e-3)
    assert counts.sum() == 75 * 10**12


def test_more_copies_than_fit_into_memory(rng):
    X = rng.normal(size=(150, 2))
    model = BaggingClassifier(KNeighborsClassifier(), 2, bootstrap=False, max_samples=0.5, weight_type="frequency")
    with pytest.raises(ValueError, match="sample_weight must sum to at most"):
        model.fit(X, X[:, 0] > 0, sample_weight=np.full(150, 1e9))
    model.set_params(max_samples=60, random_state=0).fit(X, X[:, 0] > 0, sample_weight=np.full(150, 1e9))
    assert model.score(X, X[:, 0] > 0) > 0.8


def test_a_list_of_labels_that_are_not_all_strings():
    X = np.arange(8.0)[:, None]
    with pytest.raises(ValueError, match="Input y contains NaN"):
        BaggingClassifier(n_estimators=2).fit(X, ["a", "b"] * 3 + ["a", np.nan])
    with pytest.raises(ValueError, match="y holds int, str; labels must be all strings or all numbers"):
        BaggingClassifier(n_estimators=2).fit(X, ["a", "b"] * 3 + ["a", 1])
    with pytest.raises(ValueError, match="y must not have masked values; row"):
        BaggingClassifier(n_estimators=2).fit(X, np.ma.masked_array([0, 1] * 4, mask=[0] * 7 + [1]))


@pytest.mark.parametrize("estimator", [None, KNeighborsClassifier()])
def test_bags_of_members_that_there_are_not(estimator):
    model = BaggingClassifier(estimator, 2).fit(*load_iris(return_X_y=True))
    for member in (2, -1, 1.0, True, "0"):
        with pytest.raises(ValueError, match=f"member must be a whole number from 0 to 1; got {member!r}"):
            model.in_bag(member)


def test_a_copy_that_grows_leaves_the_model_it_was_copied_from(patients):
    X, y = patients
    model = BaggingRegressor(n_estimators=2, random_state=0).fit(X, y)
    wanted, length = model.predict(X), len(model)
    grown = copy.copy(model).set_params(warm_start=True, n_estimators=4).fit(X, y)
    assert len(grown) == 4
    np.testing.assert_array_equal(model.predict(X), wanted)
    assert len(model) == length


@pytest.mark.parametrize(
    "model",
    [BaggingClassifier(fastens.GaussianNB(), 12), fastens.AdaBoostClassifier(fastens.GaussianNB(), n_estimators=12)],
)
def test_arrays_of_many_members_are_separated_in_one_pass(model, tumours):
    model.fit(*tumours)
    names = []

    class Arrays(dict):
        def items(self):
            for item in super().items():
                names.append(item[0])
                yield item

    arrays, meta = model._to_state()
    same = type(model)._from_state(Arrays(arrays), meta)
    np.testing.assert_array_equal(same.predict_proba(tumours[0]), model.predict_proba(tumours[0]))
    assert len(names) <= 3 * len(arrays)


# Bags by class --------------------------------------------------


def rare(rng, n_rows=400):
    X = rng.normal(size=(n_rows, 4))
    return X, np.array(["no", "yes", "maybe"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n_rows), [1.2, 2.0])]


@pytest.mark.parametrize("estimator", [None, OtherTree(), LogisticRegression(), KNeighborsClassifier()])
@pytest.mark.parametrize("bootstrap", ["stratified", "balanced", 0.5, {"no": 40, "maybe": 2.0}])
def test_bags_draw_from_each_class(rng, estimator, bootstrap, tmp_path):
    X, y = rare(rng)
    model = BaggingClassifier(estimator, 6, bootstrap=bootstrap, oob_score=True, random_state=0).fit(X, y)
    sizes = np.unique(y, return_counts=True)[1]  # maybe, no, yes
    wanted = {
        "stratified": sizes, "balanced": np.full(3, sizes.min()), "0.5": np.minimum(sizes, 2 * sizes.min()),
    }.get(str(bootstrap), [2 * sizes[0], 40, sizes[2]])  # fmt: skip
    for rows in model.estimators_samples_:
        np.testing.assert_array_equal(np.unique(y[rows], return_counts=True)[1], wanted)
    # Each row is predicted by the members that did not draw it.
    is_out = np.array([~np.isin(np.arange(len(y)), rows) for rows in model.estimators_samples_])
    each = np.array([member.predict_proba(X) for member in model.estimators_])
    mean = (each * is_out[:, :, None]).sum(axis=0) / np.maximum(is_out.sum(axis=0), 1)[:, None]
    known = is_out.any(axis=0)
    np.testing.assert_allclose(model.oob_decision_function_[known], mean[known], atol=1e-12)
    assert model.oob_score_ == pytest.approx((model.classes_[mean[known].argmax(axis=1)] == y[known]).mean())
    few = BaggingClassifier(estimator, 2, bootstrap=bootstrap, warm_start=True, random_state=0).fit(X, y)
    few.set_params(n_estimators=6).fit(X, y)
    model.save(tmp_path / "bags", allow_pickle=True)
    for same in (few, fastens.load(tmp_path / "bags", allow_pickle=True)):
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("bootstrap", ["balanced", 0.5, {"yes": 0.5}])
@pytest.mark.parametrize("estimator", [None, OtherTree()])
def test_bags_by_class_count_weights_as_copies(rng, bootstrap, estimator):
    X, y = rare(rng, 200)
    X[rng.random(X.shape) < 0.1] = np.nan
    times = rng.integers(0, 3, len(y))
    model = BaggingClassifier(estimator, 3, bootstrap=bootstrap, random_state=0)
    repeated = np.repeat(np.arange(len(y)), times)
    weighted, unweighted = clone(model).fit(X, y, times), clone(model).fit(X[repeated], y[repeated])
    for rows, copies in zip(weighted.estimators_samples_, unweighted.estimators_samples_, strict=True):
        np.testing.assert_array_equal(np.sort(rows), np.sort(repeated[copies]))


def test_wrong_bags_by_class(rng):
    X, y = rare(rng)
    for bootstrap, message in (
        ({"other": 3}, r"bootstrap must have keys among the classes \['maybe', 'no', 'yes'\]; got 'other'"),
        ({}, "bootstrap must be True or False or 'stratified' or 'balanced' or a number .* got {}"),
        ({"no": -1}, "a dict of positive numbers by class; got"),
        (1.5, "bootstrap must be .*; got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            BaggingClassifier(OtherTree(), bootstrap=bootstrap).fit(X, y)
    with pytest.raises(ValueError, match="bootstrap must be True or False; got 'balanced'"):
        BaggingRegressor(bootstrap="balanced").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="max_samples must be None where bootstrap has numbers of draws"):
        BaggingClassifier(OtherTree(), bootstrap={"no": 5}, max_samples=0.5).fit(X, y)
