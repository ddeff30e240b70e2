"""The ensemble: its arrays, its questions, and what it refuses to be made of."""

from __future__ import annotations

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fastens.engine.bins.binning import learn_binning
from fastens.engine.trees.leaf_values import add_tree_to_raw
from fastens.engine.trees.packing import check_structure
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble
from reference import predict as twin


def make_table(rng, n_rows):
    X = np.column_stack([rng.normal(size=n_rows), rng.integers(40, size=n_rows), rng.exponential(size=n_rows)])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def make_ensemble(n_leaves=(31, 1, 5, 300, 31), n_outputs=1, max_bins=255):
    rng = np.random.default_rng(0)
    binning = learn_binning(make_table(rng, 2000), None, max_bins, np.array([False, True, False]), 1)
    return twin.random_ensemble(rng, binning, n_leaves, n_outputs)


@pytest.fixture
def X():
    return make_table(np.random.default_rng(1), 300)


@pytest.mark.parametrize("max_bins", [255, 1500])
def test_predict_and_apply(X, max_bins):
    ensemble = make_ensemble(n_outputs=2, max_bins=max_bins)
    codes = ensemble.binning.codes(X, 1)
    np.testing.assert_array_equal(ensemble.predict_raw(X), twin.predict_raw(ensemble, codes))
    np.testing.assert_array_equal(ensemble.predict_raw(X, n_trees=2), twin.predict_raw(ensemble, codes, 2))
    np.testing.assert_array_equal(ensemble.apply(X), twin.apply(ensemble, codes))


@pytest.mark.parametrize("max_bins", [255, 1500])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_staged_raw(X, n_outputs, max_bins):
    ensemble = make_ensemble(n_outputs=n_outputs, max_bins=max_bins)
    stages = list(ensemble.staged_raw(X))
    assert len(stages) == -(-ensemble.n_trees // n_outputs)
    for i, stage in enumerate(stages):
        np.testing.assert_array_equal(stage, ensemble.predict_raw(X, n_trees=(i + 1) * n_outputs))


def test_add_tree_to_raw(X):
    ensemble = make_ensemble()
    codes = ensemble.binning.codes(X, 1)
    raw = np.full(len(X), ensemble.baseline[0])
    for t in range(ensemble.n_trees):
        add_tree_to_raw(codes, ensemble.tree(t), raw)
    np.testing.assert_array_equal(raw, ensemble.predict_raw(X)[:, 0])


def test_trees_taken_out_and_put_together_again(X):
    ensemble = make_ensemble(n_outputs=2)
    trees = [ensemble.tree(t) for t in range(ensemble.n_trees)]
    again = TreeEnsemble.from_trees(trees, ensemble.tree_output, ensemble.baseline, ensemble.binning)
    np.testing.assert_array_equal(again.predict_raw(X), ensemble.predict_raw(X))


def test_thresholds_match_the_values(X):
    ensemble = make_ensemble()
    numeric = (ensemble.feature >= 0) & (ensemble.category_set < 0)
    np.testing.assert_array_equal(np.isnan(ensemble.threshold), ~numeric)
    codes = ensemble.binning.codes(X, 1)
    for node in np.flatnonzero(numeric):
        f = ensemble.feature[node]
        known = codes[f] > 0
        by_value = X[known, f] <= ensemble.threshold[node]
        np.testing.assert_array_equal(by_value, codes[f, known] <= ensemble.bin_threshold[node])


@pytest.mark.slow
@pytest.mark.parametrize("n_trees", [3, 200])
def test_lean_trees_are_the_same(X, n_trees):
    ensemble = make_ensemble((31,) * n_trees, max_bins=1500)
    # Few trees use few thresholds: then the codes that predict have one byte.
    assert (ensemble.lean.binning.code_dtype.itemsize == 1) == (n_trees == 3)
    lean = ensemble.with_used_thresholds()
    np.testing.assert_array_equal(lean.predict_raw(X), twin.predict_raw(ensemble, ensemble.binning.codes(X, 1)))
    np.testing.assert_array_equal(lean.apply(X), ensemble.apply(X))
    inside = np.isfinite(ensemble.threshold)
    np.testing.assert_array_equal(lean.threshold[inside], ensemble.threshold[inside])


@pytest.mark.parametrize("max_bins", [255, 1500])
def test_trees_that_have_predicted_are_freed_at_once(X, max_bins):
    ensemble = make_ensemble((31,) * 200, max_bins=max_bins)
    ensemble.predict_raw(X)
    assert ensemble.lean is ensemble
    freed = weakref.ref(ensemble)
    gc.disable()
    try:
        del ensemble
        assert freed() is None
    finally:
        gc.enable()


def test_shape_of_the_trees():
    ensemble = make_ensemble((31, 1, 2))
    assert ensemble.n_leaves.tolist() == [31, 1, 2]
    assert ensemble.max_depth[1:].tolist() == [0, 1]
    assert [ensemble.tree(t).n_leaves for t in range(3)] == [31, 1, 2]
    depth = np.zeros(61, dtype=int)
    for node in np.flatnonzero(ensemble.children_left[:61] > 0):
        depth[[ensemble.children_left[node], ensemble.children_right[node]]] = depth[node] + 1
    assert ensemble.max_depth[0] == depth.max()
    np.testing.assert_array_equal(ensemble.children_left < 0, ensemble.feature < 0)


def test_feature_importances():
    ensemble = make_ensemble()
    for f in range(3):
        nodes = ensemble.feature == f
        assert ensemble.feature_importances("split")[f] == nodes.sum()
        assert ensemble.feature_importances()[f] == pytest.approx(ensemble.gain[nodes].sum())
    with pytest.raises(ValueError, match=r"kind must be 'gain' or 'split'.*got 'cover'"):
        ensemble.feature_importances("cover")


def test_pickle_and_arrays_keep_everything(X):
    ensemble = make_ensemble(n_outputs=2)
    expected = ensemble.predict_raw(X)
    for again in (pickle.loads(pickle.dumps(ensemble)), TreeEnsemble.from_arrays(ensemble.to_arrays())):
        assert "compiled" not in vars(again)
        np.testing.assert_array_equal(again.predict_raw(X), expected)
        for name, array in ensemble.to_arrays().items():
            np.testing.assert_array_equal(again.to_arrays()[name], array)
        for name in ENSEMBLE_DTYPES:
            array = getattr(ensemble, name)
            assert getattr(again, name).dtype == array.dtype, name
            np.testing.assert_array_equal(getattr(again, name), array)
    assert pickle.dumps(ensemble) == pickle.dumps(make_ensemble(n_outputs=2))
    with pytest.raises(ValueError, match="read-only"):
        ensemble.value[0] = 1


def test_compiled_predictors_are_rebuilt(X):
    ensemble = make_ensemble()
    before = ensemble.predict_raw(X)
    ensemble.forget()
    assert "compiled" not in vars(ensemble)
    np.testing.assert_array_equal(ensemble.predict_raw(X), before)


def test_many_threads_share_one_ensemble():
    X = make_table(np.random.default_rng(2), 2000)
    expected = make_ensemble().predict_raw(X)
    ensemble = make_ensemble()
    with ThreadPoolExecutor(8) as pool:
        for raw in pool.map(lambda _: ensemble.predict_raw(X, 2), range(40)):
            np.testing.assert_array_equal(raw, expected)


def set_at(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("left_child", set_at(0, 60)),
        ("left_child", set_at(0, -1)),
        ("left_child", set_at(0, 3)),
        ("left_child", set_at(60, 1)),
        ("left_child", set_at(-1, 2**31 - 1)),
        ("feature", set_at(0, 3)),
        ("feature", set_at(0, -1)),
        ("feature", set_at(0, -2)),
        ("feature", set_at(61, 0)),
        ("bin_threshold", lambda array: array + 255),
        ("category_set", lambda array: array + 1),
        ("category_set", lambda array: np.where(array >= 0, 2**31 - 1, -1).astype(np.int32)),
        ("category_words", lambda array: array[:-1]),
        ("node_offsets", set_at(0, 1)),
        ("node_offsets", set_at(1, 62)),
        ("node_offsets", set_at(1, 0)),
        ("node_offsets", set_at(-1, 1000)),
        ("node_offsets", lambda array: array[:-1]),
        ("node_offsets", lambda array: array[:0]),
        ("tree_output", set_at(0, 1)),
        ("tree_output", set_at(0, -1)),
        ("baseline", lambda array: array[:0]),
        ("value", lambda array: array[:-1]),
        ("value", lambda array: np.repeat(array, 2, axis=1)),
        ("gain", lambda array: array[:-1]),
    ],
)
def test_structure_is_checked(name, change):
    ensemble = make_ensemble((31, 1, 5))
    arrays = {key: getattr(ensemble, key) for key in ENSEMBLE_DTYPES}
    check_structure(TreeEnsemble(ensemble.binning, **arrays))
    with pytest.raises(ValueError, match="does not describe trees"):
        check_structure(TreeEnsemble(ensemble.binning, **arrays | {name: change(arrays[name])}))


def test_random_arrays_are_refused_or_safe(X):
    rng = np.random.default_rng(3)
    arrays = make_ensemble((31, 1, 5)).to_arrays()
    names = [name for name, array in arrays.items() if array.size and array.dtype.kind in "biu"]
    n_refused = 0
    for _ in range(500):
        name = names[rng.integers(len(names))]
        array = arrays[name].copy()
        array.flat[rng.integers(array.size)] = np.array(rng.integers(-2, 70)).astype(array.dtype)
        try:
            TreeEnsemble.from_arrays(arrays | {name: array}).predict_raw(X)
        except ValueError:
            n_refused += 1
    assert n_refused > 100
