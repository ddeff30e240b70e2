"""Tables of whole numbers coded in one pass, against the twin that looks at each value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import BayesianNetwork
from fastens.table import tables
from fastens.table.columns.blocks import FIRST_ROWS, MAX_TWO_BYTE_CODES, code_whole_numbers
from fastens.table.encoder import InputEncoder
from fastens.table.tables import table_from_frame
from reference.columns import code_table

TYPES = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def in_layouts(X):
    """The same matrix in several layouts of memory."""
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, 1::3] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    turned = X[::-1, ::-1].copy()[::-1, ::-1]
    yield from (np.ascontiguousarray(X), np.asfortranarray(X), wide[::2, 1::3], turned, read_only)
    yield np.ascontiguousarray(np.hstack([X, X]))[:, : X.shape[1]]


def check(X, dtype=np.uint8, n_threads=1, coded=None):
    found = code_whole_numbers(X, n_threads)
    expected, categories = coded or code_table(X)
    assert found.codes.dtype == dtype
    np.testing.assert_array_equal(found.codes, expected)
    assert found.categories == categories
    kind = bool if X.dtype.kind == "b" else int
    assert all(type(value) is kind for values in found.categories for value in values)
    apart = code_whole_numbers(list(X.T), n_threads)
    np.testing.assert_array_equal(apart.codes, expected)
    assert apart.categories == categories


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (70, 3), (3, 70), (64, 64), (129, 65), (2500, 2), (200, 1)])
def test_codes_match_the_reference(rng, dtype, shape):
    info = np.iinfo(np.int8 if dtype == np.bool_ else dtype)
    for X in (
        rng.integers(0, 2, shape).astype(dtype),
        rng.integers(0, 100, shape).astype(dtype),
        rng.choice([3, 7, 50], shape).astype(dtype),  # gaps
        np.clip(rng.integers(-9, 9, shape), info.min, info.max).astype(dtype),
    ):
        coded = code_table(X)
        for laid in in_layouts(X):
            check(laid, coded=coded)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES[1:])
def test_extremes(rng, order, dtype):
    info = np.iinfo(dtype)
    near = rng.integers(0, 5, (50, 3))
    check(np.asarray(info.max - near.astype(dtype), dtype=dtype, order=order))
    check(np.asarray(info.min + near.astype(dtype), dtype=dtype, order=order))
    ends = np.array([[info.max, info.min], [info.min, info.max]], dtype=dtype, order=order)
    if info.bits == 8:
        check(np.tile(ends, (200, 1)), np.uint16)
    else:
        assert code_whole_numbers(ends) is None
    later = np.full((3 * FIRST_ROWS, 2), info.max, dtype=dtype, order=order)
    later[-1] = info.min  # differences go round
    assert info.bits == 8 or code_whole_numbers(later) is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_ranges(rng, order):
    for width, dtype in ((254, np.uint8), (255, np.uint8), (256, np.uint16), (3000, np.uint16)):
        column = np.concatenate([np.arange(width), rng.integers(0, width, 2000)])
        X = np.stack([column - 1000, column % 7, column % 2 * (width - 1)], axis=1)
        X[FIRST_ROWS:] -= 3  # the least numbers are not among the first rows
        check(np.asarray(X, order=order), np.uint8 if width < 253 else np.uint16)
        if width < FIRST_ROWS:
            check(np.asarray(X[:FIRST_ROWS], order=order), dtype)
    X = np.repeat(np.arange(MAX_TWO_BYTE_CODES)[:, None], 2, axis=1).copy(order=order)
    np.testing.assert_array_equal(code_whole_numbers(X).codes, X.T + 1)
    X[0] = MAX_TWO_BYTE_CODES
    X[1] = 0
    assert code_whole_numbers(X) is None


def test_other_tables_are_left_to_others():
    for X in (np.zeros((2, 2)), np.zeros((0, 2), dtype=int), np.zeros((2, 2), dtype=">i4"), np.full((2, 2), "a")):
        assert code_whole_numbers(X) is None
    assert code_whole_numbers([np.zeros(2, dtype=np.int8), np.zeros(2, dtype=np.int16)]) is None
    assert code_whole_numbers([pd.array([1, 2])]) is None
    unaligned = np.zeros(33, dtype=np.uint8)[1:].view(np.int32)[:, None]
    assert code_whole_numbers(unaligned) is None
    assert code_whole_numbers(list(unaligned.T)) is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_threads_change_nothing(rng, order):
    X = np.asarray(rng.integers(-3, 60, (100_003, 5)), order=order)
    X[50_000:, 1] += 400
    for part in (X, X[:, [0, 2]]):
        one, other = code_whole_numbers(part, 1), code_whole_numbers(part, 3)
        np.testing.assert_array_equal(one.codes, other.codes)
        assert one.categories == other.categories


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_and_frames_of_whole_numbers_give_the_same(rng, dtype):
    X = rng.choice([0, 3], (300, 4)).astype(dtype)
    X[:, 1] = X[:, 1] > 0
    frames = [pd.DataFrame(X, columns=list("abcd")), pd.DataFrame({name: X[:, j] for j, name in enumerate("abcd")})]
    frames.append(pd.concat([pd.Series(X[:, j].copy(), name=name) for j, name in enumerate("abcd")], axis=1))
    expected, categories = code_table(X)
    for given in frames if dtype == np.bool_ else (*frames, X, np.asfortranarray(X)):
        door = BayesianNetwork([]).fit(given)
        np.testing.assert_array_equal(door._learn_table(given).T, expected)
        assert door._encoder.categories == categories
        np.testing.assert_array_equal(door._check_table(given).T, expected)


def test_arrays_of_large_numbers_are_exact(rng):
    X = 2**60 + rng.choice([0, 1, 2**50], (200, 2))
    X[0, 1] = -(2**60)
    model = BayesianNetwork([]).fit(X)
    assert [list(found) for found in model.states_.values()] == code_table(X)[1]
    np.testing.assert_array_equal(model._check_table(X).T, code_table(X)[0])
    assert model._check_table(X + 5).max() == 0
    with pytest.raises(ValueError, match="X has 1 features, but BayesianNetwork is expecting 2 features"):
        model.score_samples(X[:, :1])


@pytest.mark.parametrize("n_threads", [1, 3])
def test_frames_of_categories_are_coded_at_once(rng, monkeypatch, n_threads):
    monkeypatch.setattr(tables, "BLOCK_GRAIN", 1)
    words = np.array(["b", "a", "d", "c"])
    frame = pd.DataFrame(
        {
            "sorted": pd.Categorical(words[rng.integers(0, 4, 999)]),
            "turned": pd.Categorical(words[rng.integers(0, 4, 999)], categories=["d", "never", "c", "b", "a", "nor"]),
            "holes": pd.Categorical([None, "b", "a"] * 333),
            "numbers": pd.Categorical(rng.integers(-3, 3, 999)),
            "booleans": pd.Categorical(rng.integers(0, 2, 999) > 0, categories=[True, False]),
            "both": pd.Categorical([1, "b", 0.5] * 333, categories=["b", 1, 0.5]),
            "none": pd.Categorical([None] * 999),
            "many": pd.Categorical(rng.permutation(999) % 127),
        }
    )
    for given in (frame, frame[::-2], frame[["turned"]], frame[:1]):
        encoder, codes = InputEncoder.fit_codes(table_from_frame(given), n_threads)
        expected = InputEncoder.fit(table_from_frame(given), "all")
        assert encoder.categories == expected.categories
        assert encoder.names == expected.names
        np.testing.assert_array_equal(codes, expected.codes(table_from_frame(given)))
        assert codes.flags.f_contiguous
        assert codes.dtype == np.uint8
    frame["wide"] = pd.Categorical(rng.permutation(999) % 128)  # codes of two bytes
    encoder, codes = InputEncoder.fit_codes(table_from_frame(frame), n_threads)
    np.testing.assert_array_equal(codes, encoder.codes(table_from_frame(frame)))
    table = table_from_frame(pd.DataFrame({"a": frame["none"], "b": pd.Categorical([(1, 2)] * 999)}))
    with pytest.raises(ValueError, match="Column 'b' must hold categories that are strings, numbers or booleans"):
        InputEncoder.fit_codes(table, n_threads)


def test_columns_of_pandas_without_what_is_not_public(monkeypatch):
    frame = pd.DataFrame({"a": ["x", "y", None], "b": [1.5, 2.5, 1.5], "c": pd.Categorical(["v", "u", "v"])})
    frame["d"] = pd.Series([1, "z", True], dtype=object)
    expected, codes = InputEncoder.fit_codes(table_from_frame(frame))
    monkeypatch.delattr(pd.DataFrame, "_get_column_array")
    found, others = InputEncoder.fit_codes(table_from_frame(frame))
    assert found.categories == expected.categories == [["x", "y"], [1.5, 2.5], ["u", "v"], [1, "z"]]
    np.testing.assert_array_equal(codes, others)
