"""Files whose checksum is right and whose arrays do not fit together are refused when they are loaded."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

import fastens
from fastens.combining.stackers import LogisticStacker
from fastens.modelfile import storage


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


MODELS = {
    "stack": lambda: fastens.StackingRegressor([("tree", fastens.DecisionTreeRegressor(max_depth=2))], cv=2),
    "classes": lambda: fastens.StackingClassifier(
        [("tree", fastens.DecisionTreeClassifier(max_depth=2))], final_estimator=LogisticStacker(), cv=2
    ),
    "median": lambda: fastens.AdaBoostRegressor(n_estimators=3, random_state=0),
    "medians of others": lambda: fastens.AdaBoostRegressor(
        fastens.GradientBoostingRegressor(n_estimators=1), n_estimators=3, random_state=0
    ),
    "forest": lambda: fastens.RandomForestClassifier(2, random_state=0),
    "leaf rows": lambda: fastens.RandomForestRegressor(5, keep_leaves=True, random_state=0),
    "lines": lambda: fastens.GradientBoostingRegressor(n_estimators=3, linear_leaves=True),
    "averaged": lambda: fastens.RandomForestRegressor(2, averaging="posterior", random_state=0),
    "averaged classes": lambda: fastens.RandomForestClassifier(3, averaging="posterior", random_state=0),
    "intervals": lambda: fastens.ConformalRegressor(fastens.DecisionTreeRegressor(max_depth=2), cv=3),
    "sets": lambda: fastens.ConformalClassifier(fastens.DecisionTreeClassifier(max_depth=2), by_class=True),
    "rounds": lambda: fastens.GradientBoostingClassifier(n_estimators=2),
    "isolation": lambda: fastens.IsolationForest(2, random_state=0),
    "posterior": fastens.BayesTreeRegressor,
    "shares": fastens.BayesTreeClassifier,
    "bags": lambda: fastens.BaggingClassifier(fastens.GaussianNB(), n_estimators=2, random_state=0),
    "cascade": lambda: fastens.CascadeForestClassifier(
        [("forest", fastens.RandomForestClassifier(2, random_state=0))], max_layers=1
    ),
}


def load_altered(folder, name, change):
    """Load the model after a change to its arrays and JSON."""
    path = folder / name
    if not path.exists():
        MODELS[name]().fit(*load_iris(return_X_y=True)).save(path)
    kind, arrays, meta = storage.load(path)
    change(arrays, meta)
    storage.save(folder / "altered", kind, arrays, meta)
    return fastens.load(folder / "altered")


@pytest.mark.parametrize(
    ("name", "array", "alter", "refusal"),
    [
        ("stack", "final.fitted.intercept_", lambda a: a[:0], "coefficients"),
        ("stack", "final.fitted.coef_", lambda a: a[None], "coefficients"),
        ("stack", "final.fitted.is_probability_", lambda a: a[:0], "scales"),
        ("stack", "final.fitted.is_probability_", lambda a: a.astype(np.int64) + 9, "scales"),
        ("classes", "final.fitted.coef_", lambda a: a[:1], "coefficients"),
        ("median", "fitted.estimator_weights_", lambda a: -a, "weights"),
        ("median", "fitted.estimator_weights_", lambda a: a * np.nan, "weights"),
        ("median", "fitted.estimator_weights_", lambda a: a[:-1], "regressors"),
        ("medians of others", "fitted.n_estimators_", lambda a: a + 1, "regressors"),
        ("forest", "fitted._seed", lambda a: a * 0 - 1, "seed"),
        ("forest", "fitted._seed", lambda a: a * 0 + 2**62, "seed"),
        ("lines", "ensemble.value", lambda a: a.astype(np.float32), "value"),
        ("averaged", "averaging.n_thresholds", lambda a: a[1:], "thresholds"),
        ("averaged", "averaging.variance", lambda a: -a, "variance"),
        (
            "averaged classes",
            "ensemble.value",
            lambda a: a[:, :1],
            "values of the trees",
        ),
        ("intervals", "n_parts", lambda a: a - 1, "the number of calibrations does not match the number of models"),
        ("sets", "fold0.0.label", lambda a: a - 2, "the calibration scores do not match the classes"),
        ("sets", "fold0.0.label", lambda a: a[:, None], "the calibration scores are malformed"),
        ("sets", "fold0.0.label", lambda a: a * 1.0, "the calibration scores are malformed"),
        ("sets", "fold0.0.weight", lambda a: a * np.nan, "the weights of the calibration scores are malformed"),
        ("isolation", "seed", lambda a: a * 0 - 1, "seed"),
        ("bags", "_seed", lambda a: a * 0 - 1, "seed"),
        ("posterior", "node_statistics", lambda a: a * 0 - 2.0**31, "statistics"),
        ("shares", "node_statistics", lambda a: a * [[1.0], [1.0], [-1.0]], "statistics"),
        ("cascade", "n_levels", lambda a: a * 0 - 1, "level"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(folder, name, array, alter, refusal):
    def change(arrays, meta):
        arrays[array] = alter(arrays[array])

    load_altered(folder, name, lambda arrays, meta: None)
    with pytest.raises(fastens.ModelFileError, match=refusal):
        load_altered(folder, name, change)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("leaf rows", "ensemble.node_offsets"),
        ("leaf rows", "leaf_rows.starts"),
        ("lines", "ensemble.linear.starts"),
    ],
)
def test_places_that_ascend_only_by_overflow_are_refused(folder, name, array):
    def change(arrays, meta):
        places = arrays[array].astype(np.int64)
        places[1:4] = 2**63 - 1, -(2**62), -2
        assert (np.diff(places) >= 0).all()
        arrays[array] = places

    with pytest.raises(fastens.ModelFileError, match=f"rows of leaves|{array.rpartition('.')[2]}"):
        load_altered(folder, name, change)


def test_linear_leaves_that_have_a_feature_twice_are_refused(folder):
    def change(arrays, meta):
        starts = arrays["ensemble.linear.starts"].copy()
        node = int(np.flatnonzero(np.diff(starts))[0])
        for name in ("features", "slopes", "lower", "upper", "at_means"):
            found = arrays[f"ensemble.linear.{name}"]
            arrays[f"ensemble.linear.{name}"] = np.insert(found, starts[node], found[starts[node]])
        starts[node + 1 :] += 1
        arrays["ensemble.linear.starts"] = starts

    with pytest.raises(fastens.ModelFileError, match=r"linear\.features does not describe"):
        load_altered(folder, "lines", change)


def test_averages_of_more_targets_than_the_trees_have_are_refused(folder):
    def change(arrays, meta):
        leaves = arrays["averaging.leaves.0"]
        arrays["averaging.leaves.0"] = np.concatenate([leaves, np.ones((4, leaves.shape[1]), leaves.dtype)])
        for name in ("location", "variance"):
            arrays[f"averaging.{name}"] = np.ones(3)

    with pytest.raises(fastens.ModelFileError, match="location and the variance"):
        load_altered(folder, "averaged", change)


def test_trees_that_are_not_whole_rounds_are_refused(folder):
    def change(arrays, meta):
        trees = fastens.load(folder / "rounds")._ensemble
        kept = [trees.tree(t) for t in range(trees.n_trees - 1)]
        cut = type(trees).from_trees(kept, trees.tree_output[:-1], trees.baseline, trees.binning)
        arrays |= {f"ensemble.{name}": array for name, array in cut.to_arrays().items()}

    with pytest.raises(fastens.ModelFileError, match="cannot be divided into rounds"):
        load_altered(folder, "rounds", change)


def test_numbers_of_categories_that_are_not_codes_are_refused(folder):
    def change(arrays, meta):
        lookup = np.zeros((4, 2), np.int32)
        lookup[0, 0] = 2**31 - 1
        arrays["ensemble.binning.lookup"] = lookup.ravel()

    with pytest.raises(fastens.ModelFileError, match="binning"):
        load_altered(folder, "rounds", change)


def test_classifiers_without_classes_are_refused(folder):
    with pytest.raises(fastens.ModelFileError, match="classes"):
        load_altered(folder, "cascade", lambda arrays, meta: meta["door"].pop("classes"))
