"""What the boosting estimators take: arrays of every layout, frames of every library, odd shapes and values."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from reference.models import make_model, make_target, outputs

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def X(rng):
    X = rng.standard_normal((300, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture
def y(X, rng):
    return make_target("squared_error", X, rng)


def fit(X, y, **parameters):
    return GradientBoostingRegressor(**{"n_estimators": 8, "min_samples_leaf": 2, **parameters}).fit(X, y)


# Values --------------------------------------------------


def test_missing_values_may_tell(rng):
    X = rng.standard_normal((400, 2))
    X[rng.random(400) < 0.4, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(float)
    model = fit(X, y, n_estimators=100)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
    assert model.feature_importances_[0] == pytest.approx(1)


def test_values_missing_only_in_prediction(rng):
    X = np.repeat([[0.0], [1.0]], [30, 70], axis=0)
    model = fit(X, X[:, 0], n_estimators=50)
    # They go with the larger part of the rows.
    assert model.predict([[np.nan]])[0] == model.predict([[1.0]])[0]


def test_infinite_values_are_the_extremes(rng):
    X = rng.standard_normal((400, 1))
    X[:50], X[50:100] = -np.inf, np.inf
    y = np.clip(X[:, 0], -3, 3)
    model = fit(X, y, n_estimators=100)
    np.testing.assert_allclose(model.predict([[-np.inf], [np.inf]]), [-3, 3], atol=0.01)
    finite = fit(np.clip(X, -1e6, 1e6), y, n_estimators=100)
    np.testing.assert_array_equal(model.predict(X), finite.predict(np.clip(X, -1e6, 1e6)))


@pytest.mark.parametrize("constant", [0.0, -7.5, np.nan, np.inf])
def test_constant_columns_change_nothing(constant, X, y):
    wide = np.column_stack([np.full(300, constant), X])
    model = fit(wide, y, max_features=1.0)
    np.testing.assert_array_equal(model.predict(wide), fit(X, y, max_features=1.0).predict(X))
    assert model.feature_importances_[0] == 0


@pytest.mark.parametrize("X", [np.zeros((40, 3)), np.full((40, 1), np.nan), np.zeros((1, 5))], ids=["0", "nan", "row"])
def test_nothing_to_split(X):
    y = np.arange(len(X), dtype=float) + 3
    np.testing.assert_allclose(fit(X, y).predict(X), y.mean())
    constant = fit(np.arange(len(X))[:, None], np.full(len(X), 7.0), min_samples_leaf=1)
    np.testing.assert_array_equal(constant.predict([[0.0], [99.0]]), [7, 7])


def test_float64_is_not_rounded():
    X = np.where(np.arange(200) % 2, 1.0 + 1e-9, 1.0)[:, None]
    assert len(np.unique(X.astype(np.float32))) == 1
    y = (X[:, 0] > 1).astype(int)
    model = GradientBoostingClassifier(n_estimators=30).fit(X, y)
    assert model.score(X, y) == 1
    assert model.predict([[1.0], [1.0 + 1e-9]]).tolist() == [0, 1]
    adjacent = np.where(y, np.nextafter(1.0, 2), 1.0)[:, None]
    assert GradientBoostingClassifier(n_estimators=30).fit(adjacent, y).score(adjacent, y) == 1


@pytest.mark.parametrize("scale", [1e-310, 1e-30, 1e30, 1e305])
def test_any_scale_of_a_feature(scale, X, y):
    # Powers of two would be exact; these round, and small numbers lose digits: the order is what counts.
    X = np.round(X, 2)
    np.testing.assert_array_equal(fit(X * scale, y).predict(X * scale), fit(X, y).predict(X))


@pytest.mark.slow
def test_wide_tables(rng):
    X = rng.standard_normal((60, 10_000)).astype(np.float32)
    X[:, 1] = X[:, 9_999] ** 2
    model = fit(X, X[:, 9_999] > 0, n_estimators=3)
    assert model.feature_importances_.argmax() == 9_999
    assert model.predict(X[:3]).shape == (3,)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(10_000)])
    np.testing.assert_array_equal(fit(frame, X[:, 9_999] > 0, n_estimators=3).predict(frame), model.predict(X))


def test_most_bins(rng):
    X = rng.permutation(70_000).astype(np.float64)[:, None]
    y = (X[:, 0] >= 30_000).astype(float)
    model = fit(X, y, max_bins=65_535, n_estimators=2, learning_rate=1.0)
    # 70 000 values share 65 535 bins: the threshold is at most one value off.
    assert np.abs(model.predict(X) - y).sum() <= 1.01
    exact = fit(X[:60_000], y[:60_000], max_bins=65_535, n_estimators=2, learning_rate=1.0)
    np.testing.assert_allclose(exact.predict(X[:60_000]), y[:60_000], atol=1e-5)
    assert exact._ensemble.binning.code_dtype == np.uint16


@pytest.mark.parametrize("max_bins", [2, 3, 254, 255, 256, 300])
def test_bins_around_a_byte(max_bins, rng):
    X = rng.permutation(np.repeat(np.arange(300.0), 2))[:, None]
    y = (X[:, 0] >= 150).astype(float)
    model = fit(X, y, max_bins=max_bins, n_estimators=20, learning_rate=0.5)
    assert np.mean((model.predict(X) > 0.5) == y) > (0.99 if max_bins != 3 else 0.65)


# Arrays --------------------------------------------------


def strided(X):
    wide = np.empty((2 * len(X), 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def misaligned(X):
    raw = np.empty(X.nbytes + 1, dtype=np.uint8)[1:]
    out = raw.view(X.dtype).reshape(X.shape)
    out[:] = X
    return out


LAYOUTS = {
    "F": np.asfortranarray,
    "strided": strided,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "misaligned": misaligned,
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "matrix of numbers as frame": pd.DataFrame,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layout_does_not_matter(layout, dtype, X, y):
    X = X.astype(dtype)
    other = LAYOUTS[layout](X)
    model = fit(X, y)
    expected = model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a frame without names of its own
        np.testing.assert_array_equal(model.predict(other), expected)
        np.testing.assert_array_equal(fit(other, y).predict(other), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float16, np.float32])
def test_types_of_numbers(dtype, rng):
    X = rng.integers(0, 100, (200, 3))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    expected = fit(X.astype(float), y).predict(X.astype(float))
    model = fit(X.astype(dtype), y)
    np.testing.assert_array_equal(model.predict(X.astype(dtype)), expected)
    np.testing.assert_array_equal(model.predict(X), expected)
    flags = X > 50
    np.testing.assert_array_equal(fit(flags, y).predict(flags), fit(flags.astype(float), y).predict(flags.astype(int)))


def test_read_only_and_memory_mapped(X, y, tmp_path):
    expected = fit(X, y).predict(X)
    arrays = {"X": X, "y": y, "weight": np.ones(300)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    frozen = {name: array.copy() for name, array in arrays.items()}
    for array in frozen.values():
        array.flags.writeable = False
    for given in (mapped, frozen):
        model = GradientBoostingRegressor(n_estimators=8, min_samples_leaf=2)
        model.fit(given["X"], given["y"], given["weight"], X_val=given["X"], y_val=given["y"])
        np.testing.assert_array_equal(model.predict(given["X"]), expected)
        assert len(list(model.staged_predict(given["X"]))) == 8
        assert model.apply(given["X"]).shape == (300, 8)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "gamma", "multiclass"])
def test_inputs_are_not_changed(loss, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.random(300)
    before = X.copy(), y.copy(), weight.copy()
    make_model(loss).fit(X, y, weight).predict(X)
    for array, copy in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_sparse_is_dense(make, loss, rng):
    X = np.where(rng.random((500, 6)) < 0.3, rng.standard_normal((500, 6)), 0.0)
    X[:5, 0] = np.nan
    y = make_target(loss, X, rng)
    rows = make(X)
    options = {"early_stopping": True, "random_state": 0, "n_jobs": 2}
    dense, model = make_model(loss, **options).fit(X, y), make_model(loss, **options).fit(rows, y)
    np.testing.assert_array_equal(outputs(model, rows), outputs(dense, X))
    np.testing.assert_array_equal(outputs(model, X), outputs(dense, X))
    np.testing.assert_array_equal(model.apply(rows), dense.apply(X))
    np.testing.assert_array_equal(list(model.staged_predict(rows)), list(dense.staged_predict(X)))
    validated = make_model(loss).fit(rows, y, X_val=rows, y_val=y)
    np.testing.assert_array_equal(outputs(validated, rows), outputs(make_model(loss).fit(X, y, X_val=X, y_val=y), X))


# Frames --------------------------------------------------

N = 240


@pytest.fixture
def columns(rng):
    """Columns of every kind, as lists with None where a value is missing."""
    color = rng.choice(["red", "green", "blue", "grey"], N)
    flag = rng.random(N) < 0.5
    number = rng.standard_normal(N)
    count = rng.integers(0, 9, N)
    hidden = rng.random((4, N)) < 0.08
    return {
        name: [None if gone else value for value, gone in zip(column.tolist(), hide, strict=True)]
        for (name, column), hide in zip(
            {"color": color, "flag": flag, "number": number, "count": count}.items(), hidden, strict=True
        )
    }


@pytest.fixture
def target(columns):
    color = np.array([{"red": 3, "blue": -2}.get(value, 0) for value in columns["color"]])
    flag = np.array([bool(value) for value in columns["flag"]])
    number = np.array([value or 0.0 for value in columns["number"]])
    return color * (1 + flag) + np.sin(number) + 0.1 * np.array([value or 0 for value in columns["count"]])


def as_pandas(columns):
    return pd.DataFrame(columns).astype({"color": "category"})


def as_nullable(columns):
    types = {"color": "string", "flag": "boolean", "number": "Float64", "count": "Int64"}
    return pd.DataFrame({name: pd.array(values, dtype=types[name]) for name, values in columns.items()})


def as_pandas_of_arrow(columns):
    return as_arrow(columns).to_pandas(types_mapper=pd.ArrowDtype)


def as_enums(columns):
    return pl.DataFrame(columns).with_columns(pl.col("color").cast(pl.Enum(["grey", "blue", "green", "red"])))


def as_arrow(columns):
    table = pa.table(columns)
    return table.set_column(0, "color", table["color"].dictionary_encode())


FRAMES = {
    "pandas": as_pandas,
    "pandas objects": pd.DataFrame,
    "pandas nullable": as_nullable,
    "pandas of arrow": as_pandas_of_arrow,
    "polars": pl.DataFrame,
    "polars enums": as_enums,
    "polars lazy types": lambda columns: pl.DataFrame(columns).with_columns(pl.col("color").cast(pl.Categorical)),
    "arrow": as_arrow,
    "arrow strings": pa.table,
}


@pytest.fixture(params=FRAMES)
def make_frame(request):
    return FRAMES[request.param]


def test_frames_of_all_kinds_agree(make_frame, columns, target):
    first = fit(as_pandas(columns), target, n_estimators=60)
    expected = first.predict(as_pandas(columns))
    assert np.corrcoef(expected, target)[0, 1] > 0.97
    assert first.feature_names_in_.tolist() == list(columns)
    assert first.feature_importances_.argmax() == 0
    frame = make_frame(columns)
    np.testing.assert_array_equal(first.predict(frame), expected)
    model = fit(frame, target, n_estimators=60)
    np.testing.assert_array_equal(model.predict(frame), expected)
    np.testing.assert_array_equal(model.predict(as_pandas(columns)), expected)
    assert model.feature_names_in_.tolist() == list(columns)


def test_columns_are_matched_by_name(make_frame, columns, target):
    model = fit(make_frame(columns), target)
    expected = model.predict(make_frame(columns))
    mixed = make_frame({name: columns[name] for name in ("color", "count", "number", "flag")})
    np.testing.assert_array_equal(model.predict(mixed), expected)
    with pytest.raises(ValueError, match="now missing:\n- flag"):
        model.predict(pd.DataFrame(columns).drop(columns="flag"))
    more = pd.DataFrame({"extra": ["x"] * len(target), **columns})
    np.testing.assert_array_equal(model.predict(more), expected)


def test_codes_of_categories_do_not_matter(columns, target):
    frame = as_pandas(columns)
    model = fit(frame, target)
    expected = model.predict(frame)
    other = frame.assign(color=frame.color.cat.set_categories(["blue", "new", "red", "grey", "green", "old"]))
    np.testing.assert_array_equal(model.predict(other), expected)
    np.testing.assert_array_equal(fit(other, target).predict(frame), expected)
    # Rows whose categories are fewer than those of training, and so have other codes.
    rows = frame[frame.color.isin(["red", "grey"])].iloc[::-1]
    rows = rows.assign(color=rows.color.cat.remove_unused_categories())
    np.testing.assert_array_equal(model.predict(rows), expected[rows.index])


def test_unseen_categories_are_missing_values(make_frame, columns, target):
    model = fit(make_frame(columns), target)
    unseen = {**columns, "color": ["purple"] * N}
    missing = {**columns, "color": [None] * N}
    np.testing.assert_array_equal(model.predict(pd.DataFrame(unseen)), model.predict(pd.DataFrame(missing)))
    assert np.isfinite(model.predict(pd.DataFrame(missing))).all()


def test_categories_need_no_order():
    """A set of categories that no threshold separates is one split."""
    color = np.array(list("abcdefgh") * 40)
    y = np.isin(color, list("bdg")).astype(float)
    frame = pd.DataFrame({"color": color})
    model = fit(frame, y, n_estimators=60, max_leaf_nodes=2)
    np.testing.assert_allclose(model.predict(frame), y, atol=0.01)


@pytest.mark.parametrize("max_bins", [255, 16, 1000])
def test_many_categories(max_bins, rng):
    names = np.array([f"city {i}" for i in range(600)])
    city = np.minimum(rng.geometric(0.01, 6000), 599)
    effect = rng.standard_normal(600)
    y = effect[city] + 0.1 * rng.standard_normal(6000)
    frame = pd.DataFrame({"city": pd.Categorical(names[city])})
    model = fit(frame, y, n_estimators=40, max_bins=max_bins, learning_rate=0.3)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > (0.2 if max_bins == 16 else 0.9)


@pytest.mark.parametrize("chosen", [["shop"], [1], [False, True], np.array([1]), pd.Index(["shop"])])
def test_chosen_categories(chosen, rng):
    frame = pd.DataFrame({"price": rng.standard_normal(200), "shop": rng.integers(100, 108, 200)})
    y = np.isin(frame.shop, [101, 103, 106]).astype(float)
    model = fit(frame, y, n_estimators=60, max_leaf_nodes=2, categorical_features=chosen)
    np.testing.assert_allclose(model.predict(frame), y, atol=0.02)
    as_floats = frame.astype(float)
    np.testing.assert_array_equal(model.predict(as_floats), model.predict(frame))
    plain = fit(frame, y, n_estimators=60, max_leaf_nodes=2)
    assert np.abs(plain.predict(frame) - y).max() > 0.1
    if not isinstance(chosen, pd.Index) and chosen[0] != "shop":
        array = frame.to_numpy()
        options = {"n_estimators": 60, "max_leaf_nodes": 2, "categorical_features": chosen}
        np.testing.assert_array_equal(fit(array, y, **options).predict(array), model.predict(frame))


def test_categories_of_no_interest(columns, target):
    frame = pd.DataFrame(columns).astype({"flag": "boolean"}).drop(columns="color")
    numeric = fit(frame, target, categorical_features=None)
    np.testing.assert_array_equal(
        numeric.predict(frame),
        fit(frame.astype({"flag": "Float64"}), target).predict(frame.astype({"flag": "Float64"})),
    )


def test_validation_frames(columns, target):
    frame = as_pandas(columns)
    turned = as_enums({name: columns[name] for name in reversed(columns)})
    first = fit_validated(frame, target, frame)
    np.testing.assert_array_equal(
        first.evals_result_["validation"]["loss"],
        fit_validated(frame, target, turned).evals_result_["validation"]["loss"],
    )


class NumPyReads:
    """What NumPy makes an array of, and nothing else."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


def test_validation_rows_of_any_array(X, y):
    given = NumPyReads(X), NumPyReads(y)
    expected = fit_validated(X, y, X).predict(X)
    found = GradientBoostingRegressor(n_estimators=8).fit(*given, X_val=given[0], y_val=given[1]).predict(given[0])
    np.testing.assert_array_equal(found, expected)


def fit_validated(X, y, X_val):
    return GradientBoostingRegressor(n_estimators=8).fit(X, y, X_val=X_val, y_val=y)


def test_text_outside_of_categorical_columns_raises():
    with pytest.raises(ValueError, match="Column 'word' must hold numbers"):
        fit(pd.DataFrame({"word": ["a", "b"]}), [1, 2], categorical_features=None)


# Targets --------------------------------------------------

LABELS = {
    "strings": np.array(["no", "yes", "maybe"]),
    "objects": np.array(["no", "yes", "maybe"], dtype=object),
    "booleans": np.array([False, True]),
    "floats": np.array([-1.0, 0.5 * 4, 1e15]),
    "far integers": np.array([-(2**62), 7, 2**62]),
    "unsigned": np.array([0, 2**63, 2**64 - 1], dtype=np.uint64),
    "bytes of one": np.array([0, 255], dtype=np.uint8),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("wrap", [np.asarray, list, pd.Series, pl.Series], ids=["array", "list", "pandas", "polars"])
def test_any_labels(kind, wrap, rng):
    labels = LABELS[kind]
    X = rng.standard_normal((150, 2))
    index = np.digitize(X[:, 0], [-0.5, 0.5]) if len(labels) == 3 else (X[:, 0] > 0).astype(int)
    y = labels[index]
    model = GradientBoostingClassifier(n_estimators=30).fit(X, wrap(y))
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.score(X, y) > 0.95
    assert set(model.predict(X).tolist()) <= set(labels.tolist())
    assert model.predict_proba(X).shape == (150, len(labels))


def test_pandas_target_with_its_own_index(X, y, rng):
    frame = pd.DataFrame(X, columns=list("abcd"), index=rng.permutation(300))
    target = pd.Series(y, index=rng.permutation(300))
    np.testing.assert_array_equal(fit(frame, target).predict(frame), fit(X, y).predict(X))


def test_many_classes(rng):
    X = rng.standard_normal((600, 1))
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, 31)[1:-1]))
    model = GradientBoostingClassifier(n_estimators=10, min_samples_leaf=1).fit(X, y)
    assert model.decision_function(X).shape == (600, 30)
    assert model.score(X, y) > 0.9
