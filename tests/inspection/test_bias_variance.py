from __future__ import annotations

import matplotlib as mpl
import narwhals
import narwhals.stable.v1
import narwhals.stable.v2
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csc_matrix, dia_matrix
from sklearn.datasets import load_iris, make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fastens import GradientBoostingRegressor, bias_variance_decomposition, plot_bias_variance

mpl.use("Agg")


def made_up(n_rows, seed=0, noise=1.0):
    X, y = make_friedman1(n_rows, noise=0.0, random_state=seed)
    return X, y + noise * np.random.default_rng(seed).normal(size=n_rows), y


def test_squared_error_adds_up():
    X, y, _ = made_up(200)
    parts = bias_variance_decomposition(DecisionTreeRegressor(), X, y, n_rounds=30, random_state=0)
    assert parts.loss == pytest.approx(parts.bias + parts.variance, rel=1e-12)
    assert parts.noise == 0
    assert parts.row_bias.mean() == pytest.approx(parts.bias)


def test_noise_is_separated_from_bias():
    X, y, best = made_up(4000, noise=2.0)
    parts = bias_variance_decomposition(LinearRegression(), X, y, optimal=best, n_rounds=10, random_state=0)
    assert parts.noise == pytest.approx(4.0, rel=0.1)
    assert parts.loss == pytest.approx(parts.bias + parts.variance + parts.noise, rel=0.05)


@pytest.mark.slow
def test_variance_of_a_mean():
    """The variance of a mean over bootstrap samples is s^2 / n."""
    y = np.random.default_rng(0).normal(size=400)
    X = np.zeros((400, 1))
    parts = bias_variance_decomposition(DummyRegressor(), X, y, X_test=X, y_test=y, n_rounds=400, random_state=0)
    assert parts.variance == pytest.approx(y.var() / 400, rel=0.25)
    assert parts.bias == pytest.approx(y.var(), rel=0.05)


@pytest.mark.slow
def test_deep_trees_trade_bias_for_variance():
    X, y, _ = made_up(300)
    stump, deep = (
        bias_variance_decomposition(DecisionTreeRegressor(max_depth=d), X, y, n_rounds=30, random_state=0)
        for d in (1, None)
    )
    assert stump.bias > 2 * deep.bias
    assert deep.variance > 2 * stump.variance


def naive_zero_one(predictions, y, best):
    """Domingos (2000), theorem 2: the loss from c1 N + B + c2 V, row by row."""
    parts = []
    for column, target, optimum in zip(predictions.T, y, best, strict=True):
        labels, counts = np.unique(column, return_counts=True)
        main = labels[counts.argmax()]
        bias, variance = float(main != optimum), (column != main).mean()
        deviating = column[column != main]
        factor = 1.0 if bias == 0 else -((deviating == optimum).mean() if deviating.size else 0.0)
        noise = (column == optimum).mean() - (column == target).mean()
        parts.append((bias, factor * variance, noise))
    return np.mean(parts, axis=0)


def test_zero_one_matches_domingos():
    from fastens.inspection.bias_variance import _zero_one_parts

    random = np.random.default_rng(0)
    predictions, y, best = random.integers(3, size=(15, 80)), random.integers(3, size=80), random.integers(3, size=80)
    parts = _zero_one_parts(predictions, y, best)
    assert (parts.bias, parts.variance, parts.noise) == pytest.approx(naive_zero_one(predictions, y, best))
    assert parts.loss == pytest.approx(parts.bias + parts.variance + parts.noise)


@pytest.mark.slow
def test_labels_of_any_kind_and_one_neighbour_vary_more():
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    random = np.random.default_rng(0)
    y[random.random(150) < 0.2] = "a"
    few, many = (
        bias_variance_decomposition(KNeighborsClassifier(k), X, y, n_rounds=40, random_state=0) for k in (1, 30)
    )
    assert set(few.main_prediction) <= {"a", "b", "c"}
    assert few.row_variance.mean() > 1.2 * many.row_variance.mean()


@pytest.mark.parametrize("kind", [coo_matrix, dia_matrix])
def test_sparse_tables_of_any_format(kind):
    X, y = np.eye(40)[np.arange(120) % 40], np.arange(120.0)
    found, expected = (
        bias_variance_decomposition(GradientBoostingRegressor(n_estimators=2), table, y, n_rounds=2, random_state=0)
        for table in (kind(X), X)
    )
    np.testing.assert_array_equal(found.row_bias, expected.row_bias)
    np.testing.assert_array_equal(found.row_variance, expected.row_variance)


@pytest.mark.slow
def test_same_for_any_n_jobs():
    X, y = load_iris(return_X_y=True)
    one, two = (
        bias_variance_decomposition(
            DecisionTreeClassifier(max_features=1), X, y, n_rounds=8, random_state=3, n_jobs=n_jobs
        )
        for n_jobs in (1, 2)
    )
    assert one.loss == two.loss
    np.testing.assert_array_equal(one.row_variance, two.row_variance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be .squared_error. or .zero_one. or None; got .hinge."),
        ({"n_rounds": 1}, "n_rounds must be a whole number of at least 2; got 1"),
        ({"optimal": [1.0]}, "optimal must have one value for each row"),
        ({"X_test": [[1.0]]}, r"X_test and y_test must be passed together\."),
        ({"y": np.arange(12.0)}, "X and y must have the same number of rows; got 9 and 12"),
        ({"y": np.arange(7.0)}, "X and y must have the same number of rows; got 9 and 7"),
        ({"y": [np.nan] + [1.0] * 8}, "y must hold finite numbers; it holds nan"),
        ({"y": [np.inf] + [1.0] * 8}, "y must hold finite numbers; it holds inf"),
        ({"y": ["a"] * 9}, "y must hold numbers"),
        ({"y": np.zeros((9, 2))}, "y must have 1 axis"),
        (
            {"X_test": np.zeros((2, 1)), "y_test": [1.0]},
            "X_test and y_test must have the same number of rows; got 2 and 1",
        ),
        ({"X_test": np.zeros((1, 1)), "y_test": [np.nan]}, "y_test must hold finite numbers"),
        ({"optimal": [np.nan] * 9}, "optimal must hold finite numbers"),
        ({"n_rounds": 2.5}, "n_rounds must be a whole number of at least 2; got 2.5"),
        ({"test_size": 1.5}, "test_size must be a number .* or a whole number from 1 to 8; got 1.5"),
        ({"test_size": 9}, "test_size must be .* got 9"),
        ({"loss": "zero_one"}, "loss='zero_one' needs a classifier; got the regressor LinearRegression"),
        ({"estimator": "tree"}, "estimator must be an estimator; got 'tree'"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        bias_variance_decomposition(
            **{"estimator": LinearRegression(), "X": np.zeros((9, 1)), "y": np.arange(9.0), **options}
        )


def test_several_predictions_a_row():
    quantiles = GradientBoostingRegressor("quantile", quantile=[0.1, 0.9], n_estimators=1)
    with pytest.raises(ValueError, match="estimator must predict one value for each row; got predictions of shape"):
        bias_variance_decomposition(quantiles, np.arange(9.0)[:, np.newaxis], np.arange(9.0), n_rounds=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": ["a"] * 5 + [None] * 4}, "y must hold labels without missing values; row 5 holds None"),
        ({"y": np.arange(9) / 2}, "y must hold labels with loss='zero_one'; got fractions such as"),
        ({"y": [1] * 4 + [0] * 5, "optimal": ["a"] * 9}, "must hold labels of one type"),
        ({"y": [1] * 4 + [0] * 5, "X_test": [[0]], "y_test": ["a"]}, "must hold labels of one type"),
    ],
)
def test_errors_of_labels(options, message):
    with pytest.raises(ValueError, match=message):
        bias_variance_decomposition(KNeighborsClassifier(), np.zeros((9, 1)), **options)


def test_plot_of_no_values():
    with pytest.raises(ValueError, match="param_range must hold at least one value of max_depth"):
        plot_bias_variance(DecisionTreeRegressor(), [[1.0]] * 9, np.arange(9), param_name="max_depth", param_range=[])
    for given, message in (
        ({"param_range": 3}, "param_range must hold at least one value of max_depth; got 3"),
        ({"param_name": 3}, "param_name must be the name of a parameter; got 3"),
        ({"estimator": []}, r"estimator must be an estimator; got \[\]"),
        ({"random_state": "1"}, "random_state must be .* got '1'"),
    ):
        plain = {"estimator": DecisionTreeRegressor(), "param_name": "max_depth", "param_range": [1]}
        with pytest.raises(ValueError, match=message):
            plot_bias_variance(X=[[1.0]] * 9, y=np.arange(9), **{**plain, **given})


def test_plot():
    X, y, _ = made_up(150)
    ax = plot_bias_variance(DecisionTreeRegressor(), X, y, param_name="max_depth", param_range=[1, 3, None], n_rounds=5)
    assert [line.get_label() for line in ax.get_lines()[:3]] == ["expected loss", "squared bias", "variance"]
    assert ax.get_xlabel() == "max_depth"


def test_tables_are_in_memory():
    X, y = make_friedman1(60, random_state=0)
    options = {"n_rounds": 2, "random_state": 0}
    found = bias_variance_decomposition(LinearRegression(), memoryview(X), y, **options)
    assert found.loss == bias_variance_decomposition(LinearRegression(), X, y, **options).loss
    for wrong, kind in ((None, "NoneType"), (iter(X), ".*iterator"), (object(), "object")):
        with pytest.raises(ValueError, match=f"X must be a table with rows and columns in memory; got a {kind}"):
            bias_variance_decomposition(LinearRegression(), wrong, y)
    with pytest.raises(ValueError, match="X_test must be a table with rows and columns in memory; got a object"):
        bias_variance_decomposition(LinearRegression(), X, y, X_test=object(), y_test=y)


def test_sparse_matrices_are_looked_at_before_their_format_is_changed(monkeypatch):
    X = csc_matrix(np.arange(1.0, 41.0).reshape(10, 4))
    X.indices[3] = 10**9
    monkeypatch.setattr(csc_matrix, "tocsr", lambda self, *given: pytest.fail("read"))
    with pytest.raises(ValueError, match="X must have indices from 0 to 9"):
        bias_variance_decomposition(DecisionTreeRegressor(), X, np.arange(10.0))


@pytest.mark.parametrize("version", [narwhals, narwhals.stable.v1, narwhals.stable.v2])
def test_frames_of_any_version_of_narwhals(version):
    X, y = make_friedman1(60, random_state=0)
    frame, options = pd.DataFrame(X).add_prefix("x"), {"n_rounds": 2, "random_state": 0}
    found = bias_variance_decomposition(LinearRegression(), version.from_native(frame), y, **options)
    assert found.loss == bias_variance_decomposition(LinearRegression(), frame, y, **options).loss
