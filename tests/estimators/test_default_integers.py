"""Lists of numbers are arrays of 32 bits in NumPy 1 on Windows; what kernels read is of 64 bits all the same."""

import sys

import numpy as np
import pytest

import fastens as fe


class NumPyOfWindows:
    """NumPy, but that `array` makes integers of 32 bits of lists, and others keep them."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def array(values, dtype=None, **options):
        made = np.array(values, dtype, **options)
        return made.astype(np.int32) if dtype is None and isinstance(values, list) and made.dtype == np.int64 else made

    @staticmethod
    def arange(*args, **options):
        return np.arange(*args, **(options or ({"dtype": np.int32} if all(isinstance(n, int) for n in args) else {})))

    @staticmethod
    def append(values, more, **options):
        return np.append(np.int32(values) if isinstance(values, int) else values, more, **options)

    @staticmethod
    def cumsum(values, **options):
        own = np.asarray(values).dtype
        return np.cumsum(values, **({"dtype": own} if not options and own == np.int32 else options))


@pytest.mark.parametrize(
    "model",
    [
        fe.GradientBoostingRegressor(n_estimators=2, early_stopping=True),
        fe.RandomForestRegressor(n_estimators=2),
        fe.IsolationForest(n_estimators=2, bootstrap=True),
        fe.AdaBoostRegressor(n_estimators=2),
        fe.BayesTreeClassifier(),
        fe.ExactTreeAverageClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_are_the_same(model, rng, monkeypatch):
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] > 0).astype(float)
    expected = model.set_params(random_state=0).fit(X, y).predict(X)
    for name, module in list(sys.modules.items()):
        if name.startswith("fastens.") and getattr(module, "np", None) is np:
            monkeypatch.setattr(module, "np", NumPyOfWindows())
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)
