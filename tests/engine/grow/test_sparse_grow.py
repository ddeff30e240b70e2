"""Trees on sparse rows: the twin's, and those on the same rows with all codes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fastens.engine.bins.binning import learn_binning, sparse_matrix
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from reference.growth import NaiveGrower
from reference.splitmix import permuted, random_bits


def sparse_rows(rng, n_rows, n_columns=130):
    X = sparse.random(n_rows, n_columns, density=0.05, format="csr", random_state=int(rng.integers(1 << 30)))
    X.data = np.round(X.data * 9) - 4
    X.data[rng.random(X.nnz) < 0.05] = np.nan
    return X


def derivatives(rng, X, heavy=False):
    signal = np.nan_to_num(X.toarray()) @ rng.normal(size=X.shape[1])
    noise = rng.standard_t(1.2, len(signal)) * 1e4 if heavy else rng.normal(size=len(signal))
    return (signal + noise).astype(np.float32), rng.uniform(0.1, 0.25, len(signal)).astype(np.float32)


def assert_equal(tree, other):
    for name, values in vars(other).items():
        np.testing.assert_array_equal(getattr(tree, name), values, err_msg=name)


RULES = [
    GrowthParameters(l2_regularization=1.0),
    GrowthParameters(min_samples_leaf=1, max_leaf_nodes=60),
    GrowthParameters(max_leaf_nodes=None, max_depth=5, min_samples_leaf=3),
    GrowthParameters(min_samples_leaf=5, rows_per_threshold=300),
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES[:2], ids=["defaults", "small leaves"])
def test_trees_match_the_reference(rules, rng):
    X = sparse_rows(rng, 600, 40)
    binning = learn_binning(X)
    gradients, hessians = derivatives(rng, X)
    tree = TreeGrower(sparse_matrix(binning, X), rules).grow(gradients, hessians)
    naive = NaiveGrower(binning.codes(X), binning.n_codes, binning.is_categorical, rules)
    nodes = naive.grow(gradients, hessians)
    assert tree.n_nodes == len(nodes)
    np.testing.assert_array_equal(
        tree.feature, [node["split"]["feature"] if "children" in node else -1 for node in nodes]
    )
    np.testing.assert_allclose(tree.value[:, 0], [node["value"] for node in nodes], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "rules"), [(50, 0), (3000, 2), (3000, 3), (20_000, 0), (20_000, 2), (70_000, 0), (70_000, 3)]
)
def test_all_forms_of_cells_and_any_number_of_threads(n_rows, rules, rng):
    """More rows than packed cells hold, or than have words made ready; gradients too wide for them."""
    X = sparse_rows(rng, n_rows)
    binning = learn_binning(X)
    codes, cells = binning.transform(X), sparse_matrix(binning, X)
    for heavy in (False, True):
        given = derivatives(rng, X, heavy)
        expected = TreeGrower(codes, RULES[rules]).grow(*given)
        for n_threads in (1, 2, 5):
            grower = TreeGrower(cells, RULES[rules], n_threads=n_threads)
            for _ in range(2):
                assert_equal(grower.grow(*given), expected)


@pytest.mark.parametrize("weights", ["whole", "real"])
def test_weights(weights, rng):
    X = sparse_rows(rng, 4000)
    binning = learn_binning(X)
    weight = rng.integers(1, 9, 4000).astype(float) if weights == "whole" else rng.random(4000) + 0.1
    rules, given = replace(RULES[0], min_weight_leaf=30.0), derivatives(rng, X)
    expected = TreeGrower(binning.transform(X), rules, weight).grow(*given)
    assert_equal(TreeGrower(sparse_matrix(binning, X), rules, weight).grow(*given), expected)


def test_a_sample_of_rows_and_features(rng):
    X = sparse_rows(rng, 4000)
    binning, rules = learn_binning(X), replace(RULES[0], features_per_split=20, features_per_tree=60)
    rows, given = np.flatnonzero(rng.random(4000) < 0.3).astype(np.uint32), derivatives(rng, X)
    expected = TreeGrower(binning.transform(X), rules).grow(*given, rows, 3)
    assert_equal(TreeGrower(sparse_matrix(binning, X), rules).grow(*given, rows, 3), expected)


@pytest.mark.slow
def test_features_drawn_from_very_many(rng):
    """Of columns that are all alike a node splits on the first that is drawn; draws are those of a table of codes."""
    n_columns, n_drawn = 40_000, 4
    column = (rng.random(60) < 0.5).astype(float)
    column[30:] = 0.0
    X = sparse.csr_matrix(np.repeat(column[:, None], n_columns, axis=1))
    binning, given = learn_binning(X), [values.astype(np.float32) for values in (0.5 - column, np.ones(60))]
    rules = GrowthParameters(max_leaf_nodes=2, min_samples_leaf=1, min_child_weight=0, features_per_split=n_drawn)
    dense, of_sparse = TreeGrower(binning.transform(X), rules), TreeGrower(sparse_matrix(binning, X), rules)
    for seed in range(3):
        key = random_bits(seed, 0)
        first = next(f for f in range(n_columns) if permuted(key, n_columns, f) < n_drawn)
        tree = of_sparse.grow(*given, None, seed)
        assert tree.feature[0] == first
        assert_equal(tree, dense.grow(*given, None, seed))


@pytest.mark.slow
def test_a_permutation_draws_all_features_alike():
    places = np.array([[permuted(seed, 300, f) for f in range(300)] for seed in range(1000, 1400)])
    assert (np.sort(places) == np.arange(300)).all()
    is_drawn = places < 60
    together = is_drawn.T.astype(float) @ is_drawn
    of_one, of_two = np.diag(together), together[np.triu_indices(300, 1)]
    share = 60 * 59 / (300 * 299)
    assert np.var(of_one) == pytest.approx(400 * 0.2 * 0.8, rel=0.35)
    assert np.mean(of_two) == pytest.approx(400 * share)
    assert np.var(of_two) == pytest.approx(400 * share * (1 - share), rel=0.1)


@pytest.mark.parametrize("n_values", [1, 30])
def test_a_column_that_most_of_many_rows_store(n_values, rng):
    """Packed cells hold at most 16 383 rows: of one value there are more, of each of several there are fewer."""
    X = sparse_rows(rng, 20_000, 30).toarray()
    X[:, 3] = 1.0 + rng.integers(n_values, size=20_000)
    X[::9, 3] = 0.0
    X = sparse.csr_matrix(X)
    binning, given = learn_binning(X), derivatives(rng, X)
    expected = TreeGrower(binning.transform(X), RULES[0]).grow(*given)
    grower = TreeGrower(sparse_matrix(binning, X), RULES[0], n_threads=2)
    for _ in range(2):
        assert_equal(grower.grow(*given), expected)


@pytest.mark.parametrize("n_columns", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("n_threads", [2, 7])
def test_columns_are_divided_among_more_threads_than_mask_words(n_columns, n_threads, rng):
    X = sparse_rows(rng, 9000, n_columns)
    binning, given = learn_binning(X), derivatives(rng, X)
    expected = TreeGrower(binning.transform(X), RULES[0]).grow(*given)
    for _ in range(3):
        grower = TreeGrower(sparse_matrix(binning, X), RULES[0], n_threads=n_threads)
        assert_equal(grower.grow(*given), expected)


def test_a_column_whose_zeros_are_few(rng):
    X = sparse_rows(rng, 800, 30).tolil()
    X[:, 3] = 1.0 + (rng.random((800, 1)) < 0.3)
    X[::50, 3] = 0.0
    X = X.tocsr()
    binning, given = learn_binning(X), derivatives(rng, X)
    expected = TreeGrower(binning.transform(X), RULES[1]).grow(*given)
    assert_equal(TreeGrower(sparse_matrix(binning, X), RULES[1]).grow(*given), expected)
