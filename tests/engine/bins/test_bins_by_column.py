"""A maximum number of bins for each column: each column as in a fit whose columns all have its maximum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import fastens
from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BinnedTable,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from fastens.engine.bins.binning import learn_binning
from reference.rank_fits import fit_on_ranks

LIMITS = np.array([5, 255, 8, 10, 300], dtype=np.int32)
KINDS = np.array([False, False, False, True, False])


def table(n_rows):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 5))
    X[:, 2], X[:, 3] = rng.integers(0, 12, n_rows), rng.integers(0, 40, n_rows)
    X[::7, 0] = np.nan
    return X, rng.integers(1, 4, n_rows).astype(float)


# With the larger number of rows, bins are learned from a sample, except for columns of few values.
@pytest.mark.parametrize("n_rows", [3000, pytest.param(400_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_each_column_has_the_bins_of_its_own_maximum(n_rows, weighted, is_sparse):
    X, weight = table(n_rows)
    kinds = np.zeros(5, dtype=bool) if is_sparse else KINDS
    if is_sparse:
        X = csr_array(np.where(np.abs(np.nan_to_num(X)) < 0.8, 0.0, np.nan_to_num(X)))
    weight = weight if weighted else None
    found = learn_binning(X, weight, LIMITS, kinds, 2)
    for column, limit in enumerate(LIMITS.tolist()):
        alone = learn_binning(X, weight, np.full(5, limit, dtype=np.int32), kinds)
        plain = learn_binning(X, weight, limit, kinds)
        np.testing.assert_array_equal(alone.thresholds[column], plain.thresholds[column])
        if n_rows == 3000:
            np.testing.assert_array_equal(found.thresholds[column], plain.thresholds[column])
        assert len(found.thresholds[column]) < limit
        if kinds[column]:
            np.testing.assert_array_equal(found.category_codes[column], plain.category_codes[column])
    assert found.code_dtype == np.uint16


MODELS = [
    GradientBoostingRegressor(n_estimators=5),
    RandomForestRegressor(3, random_state=0),
    ExtraTreesRegressor(3, random_state=0),
    DecisionTreeRegressor(random_state=0),
    AdaBoostRegressor(n_estimators=3, random_state=0),
    AdaBoostClassifier(n_estimators=3, max_depth=2, random_state=0),
    IsolationForest(3, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_estimators_take_arrays_and_dicts(model, tmp_path):
    X, weight = table(800)
    y = np.nan_to_num(X[:, 0]) + X[:, 1] > 0
    frame = pd.DataFrame(X, columns=list("abcde"))
    default = type(model)().max_bins
    listed = [6, default, default, default, 12]
    by_name = model.set_params(max_bins={"a": 6, "e": 12}).fit(frame, y, sample_weight=weight)
    sizes = [len(limits) + 1 for limits in by_name._ensemble.binning.thresholds]
    if not isinstance(model, DecisionTreeRegressor):  # thresholds of single trees lie between the values of the node
        assert (sizes[0], sizes[4]) == (6, 12)
        assert sizes[1] > 200
    expected = by_name.predict(frame)
    by_name.save(tmp_path / "model")
    again = fastens.load(tmp_path / "model")
    assert again.max_bins == {"a": 6, "e": 12}
    np.testing.assert_array_equal(again.predict(frame), expected)
    for given in (listed, np.array(listed)):
        other = model.set_params(max_bins=given, n_jobs=2).fit(frame, y, sample_weight=weight)
        np.testing.assert_array_equal(other.predict(frame), expected)
    whole = model.set_params(max_bins=200).fit(frame, y, sample_weight=weight).predict(frame)
    np.testing.assert_array_equal(
        model.set_params(max_bins=[200] * 5).fit(frame, y, sample_weight=weight).predict(frame), whole
    )


def test_streams_and_ranks_have_the_same_bins():
    X, _ = table(6000)
    frame, y = pd.DataFrame(X, columns=list("abcde")), np.nan_to_num(X[:, 0]) + X[:, 1]
    make = lambda: GradientBoostingRegressor(n_estimators=3, max_bins={"a": 6, "c": 4}, n_jobs=1)  # noqa: E731
    expected = make().fit(frame, y).predict(frame)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    stream = pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(700))
    np.testing.assert_array_equal(make().fit(stream, y).predict(frame), expected)
    for model in fit_on_ranks(3, make, y, table=frame):
        np.testing.assert_array_equal(model.predict(frame), expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([4, 4], r"must have one value for each of the 5 columns"),
        ({"z": 3}, r"must name columns of X; got 'z'"),
        ({"a": 1}, r"must hold integers from 2 to 65535; got 1"),
        ({"a": 2.5}, r"must hold integers from 2 to 65535; got 2\.5"),
        ("many", r"must be a whole number from 2 to 65535 or an array or dict with a number for each column"),
    ],
)
def test_invalid_numbers_of_bins(given, message):
    X, _ = table(50)
    with pytest.raises(ValueError, match=f"max_bins {message}"):
        GradientBoostingRegressor(max_bins=given).fit(pd.DataFrame(X, columns=list("abcde")), X[:, 1])


def test_limits_of_bins_by_column():
    X, _ = table(200)
    binned = BinnedTable.from_source(X, X[:, 1])
    with pytest.raises(ValueError, match="max_bins must be 255, as in the BinnedTable"):
        GradientBoostingRegressor(max_bins={0: 6}).fit(binned, X[:, 1])
    with pytest.raises(TypeError, match="Use max_bins"):
        GradientBoostingRegressor(max_bin_by_feature=[4] * 5)
