"""Trees and forests: what all of them promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from fastens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from reference.forests import CASES, FORESTS, KINDS, make, make_table, make_targets, outputs


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    X = make_table(rng)
    return X, make_targets(X, rng)


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_shapes(kind, target, rows):
    X, targets = rows
    y = targets[target]
    model = make(kind).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.n_outputs_ == (1 if y.ndim == 1 else y.shape[1])
    if hasattr(model, "predict_proba"):
        parts = model.predict_proba(X)
        classes = model.classes_
        parts, classes = (parts, classes) if isinstance(parts, list) else ([parts], [classes])
        logs = model.predict_log_proba(X)
        for part, labels, log in zip(parts, classes, logs if isinstance(logs, list) else [logs], strict=True):
            assert part.shape == (len(X), len(labels))
            assert part.dtype == np.float64
            np.testing.assert_allclose(part.sum(axis=1), 1, rtol=1e-12)
            np.testing.assert_allclose(np.exp(log), part, rtol=1e-14)
        best = np.column_stack([labels[part.argmax(axis=1)] for part, labels in zip(parts, classes, strict=True)])
        np.testing.assert_array_equal(model.predict(X), best if y.ndim == 2 else best[:, 0])
        assert model.n_classes_ == (len(classes[0]) if y.ndim == 1 else [len(labels) for labels in classes])
    assert np.mean(model.predict(X) == y) > 0.9 if hasattr(model, "classes_") else model.score(X, y) > 0.6
    assert model.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_threads_rows_and_containers_do_not_matter(kind, target, rows):
    X, targets = rows
    y = targets[target]
    model = make(kind, n_jobs=1).fit(X, y)
    expected = outputs(model, X)
    order = np.random.default_rng(1).permutation(len(X))
    others = [
        make(kind, n_jobs=3).fit(X, y),
        make(kind).fit(pl.from_pandas(X), y.tolist()),
        make(kind, n_jobs=2).fit(X.iloc[order], y[order]),
    ]
    for other in others:
        np.testing.assert_array_equal(outputs(other, X), expected)
    np.testing.assert_array_equal(np.concatenate([outputs(model, X[:7]), outputs(model, X[7:])]), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_tables(kind, rows):
    X, targets = rows
    y = targets["binary"]
    numbers = np.nan_to_num(X[["a", "b", "d"]].to_numpy())
    expected = outputs(make(kind).fit(numbers, y), numbers)
    found = outputs(make(kind).fit(sparse.csr_array(numbers), y), sparse.csc_array(numbers))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "target", "parameters"),
    [
        *((kind, target, {}) for kind, target in CASES),
        (RandomForestClassifier, "classes", {"bootstrap": "stratified"}),
        (RandomForestClassifier, "binary", {"bootstrap": "balanced", "max_samples": 0.5}),
        (RandomForestClassifier, "class targets", {"bootstrap": "stratified"}),
        (RandomForestClassifier, "classes", {"class_weight": {"low": 2, "high": 3, "middle": 1}}),
        (RandomForestRegressor, "numbers", {"criterion": "absolute_error", "max_samples": 50}),
        (ExtraTreesClassifier, "classes", {"max_features_per_tree": 2, "voting": "hard"}),
        (DecisionTreeRegressor, "numbers", {"criterion": "absolute_error"}),
        (DecisionTreeClassifier, "classes", {"splitter": "random", "max_features": 2}),
    ],
)
def test_weights_are_repetition(kind, target, parameters, rows):
    X, targets = rows
    y = targets[target]
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(X))
    repeated = rng.permutation(np.repeat(np.arange(len(X)), weight))
    one = make(kind, **parameters).fit(X, y, sample_weight=weight)
    other = make(kind, **parameters).fit(X.iloc[repeated], y[repeated])
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind, rows):
    X, targets = rows
    y = targets["binary"]

    def predicted(seed):
        return outputs(make(kind, random_state=seed, max_features=1, max_depth=3).fit(X, y), X)

    np.testing.assert_array_equal(predicted(3), predicted(3))
    np.testing.assert_array_equal(predicted(np.random.RandomState(3)), predicted(np.random.RandomState(3)))
    assert (predicted(3) != predicted(4)).any()
    assert (predicted(None) != predicted(None)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_and_unseen_categories_are_predicted(kind, rows):
    X, targets = rows
    model = make(kind).fit(X, targets["binary"])
    strange = pd.DataFrame({"a": [np.nan, np.inf], "b": [np.nan, -9.0], "c": ["mauve", None], "d": [np.nan, 0.0]})
    assert np.isfinite(model.predict(strange).astype(float)).all()
    missing = strange.assign(c=None)
    np.testing.assert_array_equal(outputs(model, strange)[0], outputs(model, missing)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_depth": 0}, "max_depth must be a whole number of at least 1 or None; got 0"),
        ({"min_samples_split": 1}, "min_samples_split must be .*at least 2.*; got 1"),
        ({"min_samples_leaf": 1.5}, r"min_samples_leaf must be .*; got 1\.5"),
        ({"min_weight_fraction_leaf": 0.6}, r"min_weight_fraction_leaf must be .*; got 0\.6"),
        ({"max_features": "auto"}, "max_features must be .*'sqrt', 'log2', None; got 'auto'"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be .*; got 1"),
        ({"min_impurity_decrease": -1}, "min_impurity_decrease must be .*; got -1"),
        ({"criterion": "mse"}, "criterion must be .*; got 'mse'"),
        ({"ccp_alpha": -0.5}, r"ccp_alpha must be .*; got -0\.5"),
        (
            {"max_bins": 1},
            "max_bins must be a whole number from 2 to 65535 or an array or dict .*; got 1",
        ),
        ({"monotonic_cst": [1, 0]}, "monotonic_cst must have one value for each of the"),
        ({"monotonic_cst": {"z": 1}}, "monotonic_cst must name columns of X; got 'z'"),
    ],
)
def test_errors_of_parameters(kind, parameters, message, rows):
    X, targets = rows
    with pytest.raises(ValueError, match=message):
        make(kind, **parameters).fit(X, targets["binary"])


@pytest.mark.parametrize("kind", FORESTS)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be .*; got 0"),
        ({"bootstrap": "yes"}, "bootstrap must be .*; got 'yes'"),
        ({"bootstrap": False, "max_samples": 9}, "max_samples must be None without bootstrap; got 9"),
        ({"bootstrap": False, "oob_score": True}, "oob_score must be False without bootstrap"),
        ({"bootstrap": True, "max_samples": 0.0}, r"max_samples must be .*; got 0\.0"),
        ({"oob_score": "yes"}, "oob_score must be True or False or a function; got 'yes'"),
        ({"max_features_per_tree": 0}, "max_features_per_tree must be .*; got 0"),
    ],
)
def test_errors_of_forests(kind, parameters, message, rows):
    X, targets = rows
    with pytest.raises(ValueError, match=message):
        make(kind, **parameters).fit(X, targets["binary"])


@pytest.mark.parametrize("target", ["classes", "number targets"])
def test_monotonic_constraints_are_for_one_value(target, rows):
    X, targets = rows
    kind = DecisionTreeRegressor if "number" in target else DecisionTreeClassifier
    with pytest.raises(ValueError, match=r"monotonic_cst must be None with (several targets|more than two classes)"):
        make(kind, monotonic_cst=[1, 0, 0, 0]).fit(X, targets[target])


@pytest.mark.parametrize("kind", KINDS)
def test_monotonic_constraints(kind, rows):
    X, targets = rows
    model = make(kind, monotonic_cst={"b": -1, "d": 1}, min_samples_leaf=5).fit(X, targets["binary"])
    for name, sign in (("b", -1), ("d", 1)):
        steps = [outputs(model, X.assign(**{name: value}))[:, -1] for value in np.linspace(-2, 7, 30)]
        assert (sign * np.diff(steps, axis=0) >= -1e-12).all()


def test_poisson_needs_counts(rows):
    X, targets = rows
    with pytest.raises(ValueError, match=r"y must be non-negative and have a positive sum with.*got a value of -"):
        make(RandomForestRegressor, criterion="poisson").fit(X, targets["numbers"] - 100)
    with pytest.raises(ValueError, match=r"y must be non-negative and have a positive sum with.*got a sum of 0"):
        make(RandomForestRegressor, criterion="poisson").fit(X, np.zeros(len(X)))
    model = make(RandomForestRegressor, criterion="poisson", n_estimators=3, warm_start=True).fit(X, targets["binary"])
    before = model.predict(X).mean()
    model.set_params(n_estimators=6).fit(X, np.zeros(len(X)))  # a day without events
    assert model.predict(X).mean() == pytest.approx(before / 2)


def test_class_weights_of_several_targets(rows):
    X, targets = rows
    y = targets["class targets"]
    weights = [{0: 1, 1: 2, 2: 3}, {0: 1, 1: 5}]
    one = make(DecisionTreeClassifier, class_weight=weights).fit(X, y)
    rows_weight = np.array([1, 2, 3])[y[:, 0]] * np.array([1, 5])[y[:, 1]]
    other = make(DecisionTreeClassifier).fit(X, y, sample_weight=rows_weight)
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))
    with pytest.raises(ValueError, match=r"class_weight must be .*list of one dict for each of the 2 targets"):
        make(DecisionTreeClassifier, class_weight=weights[:1]).fit(X, y)


def test_balanced_weights_help_the_rare_class(rng):
    X = rng.standard_normal((2000, 5))
    y = (X[:, 0] + rng.standard_normal(2000) > 2.2).astype(int)
    settings = [{"class_weight": "balanced"}, {"class_weight": "balanced_subsample"}, {"bootstrap": "balanced"}]
    found = [
        make(RandomForestClassifier, n_estimators=30, min_samples_leaf=20, **given).fit(X, y) for given in settings
    ]
    plain = make(RandomForestClassifier, n_estimators=30, min_samples_leaf=20).fit(X, y)
    for model in found:
        assert model.predict(X).mean() > 2 * plain.predict(X).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_rows_are_counts(kind, rows):
    X, targets = rows
    y = targets["binary"]
    shares = make(kind, min_samples_leaf=0.05, min_samples_split=0.2).fit(X, y)
    counts = make(kind, min_samples_leaf=10, min_samples_split=40).fit(X, y)
    np.testing.assert_array_equal(outputs(shares, X), outputs(counts, X))


@pytest.mark.parametrize(
    ("wanted", "count"), [("sqrt", 3), ("log2", 3), (None, 12), (1.0, 12), (0.5, 6), (0.001, 1), (5, 5), (99, 12)]
)
def test_number_of_features(wanted, count, rng):
    X = rng.standard_normal((50, 12))
    y = X[:, 0] > 0
    one = make(RandomForestClassifier, max_features=wanted).fit(X, y)
    other = make(RandomForestClassifier, max_features=count).fit(X, y)
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))
    per_tree = make(ExtraTreesClassifier, max_features_per_tree=wanted, max_features=None).fit(X, y)
    used = [len(np.unique(tree._ensemble.feature[tree._ensemble.feature >= 0])) for tree in per_tree.estimators_]
    assert max(used) <= count


def test_refitting_forgets(rows):
    X, targets = rows
    model = make(RandomForestClassifier, oob_score=True).fit(X, targets["class targets"])
    model.set_params(oob_score=False).fit(X[["a"]], targets["binary"])
    assert model.n_outputs_ == 1
    assert not hasattr(model, "oob_score_")
    np.testing.assert_array_equal(
        outputs(model, X[["a"]]), outputs(clone(model).fit(X[["a"]], targets["binary"]), X[["a"]])
    )


def test_scores_of_several_targets_and_of_labels_that_are_objects(rng):
    X = rng.normal(size=(60, 2))
    y = np.column_stack([np.where(X[:, 0] > 0, "up", "down"), np.digitize(X[:, 1], [-0.5, 0.5]).astype(str)])
    model = make(RandomForestClassifier, max_depth=2).fit(X, y)
    assert model.score(X, y) == (model.predict(X) == y).all(axis=1).mean()
    assert model.score(X, np.char.add(y, "wards")) == 0
    # Predictions of two classes each, where the rows have three.
    numbers = np.column_stack([np.arange(60) == 0, (X[:, 1] > 0) + (np.arange(60) == 0)]).astype(int)
    model = DecisionTreeClassifier(max_leaf_nodes=2).fit(X, numbers)
    assert model.score(X, numbers) == (model.predict(X) == numbers).all(axis=1).mean()
    for labels in (X[:, 0] > 0, (X[:, 0] > 0).astype(int)):
        assert DecisionTreeClassifier().fit(X, labels.astype(object)).score(X, labels.astype(object)) == 1


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor])
def test_constant_features_do_not_count(kind, form):
    """Of 60 features two are not constant: both are looked at in every node, however few may be."""
    rng = np.random.default_rng(0)
    X = np.zeros((80, 60))
    X[:, [20, 40]] = rng.integers(0, 2, size=(80, 2))
    forest = kind(n_estimators=20, max_features=2, random_state=0).fit(form(X), X[:, 40])
    assert set(forest._ensemble.feature[forest._ensemble.feature >= 0]) == {40}
    assert len(forest._ensemble.feature) == 3 * 20
