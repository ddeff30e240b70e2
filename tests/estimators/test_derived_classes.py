"""Classes that users derive from ours: their methods get what they would get from scikit-learn."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

import fastens
from reference.public_estimators import CLASSES, table_for


def with_own_predict(kind):
    class Own(kind):
        def predict(self, X):
            return super().predict(X)

    return Own


@pytest.mark.parametrize("name", [name for name in CLASSES if name.startswith("GradientBoosting")])
def test_predict_of_rows_alone(name):
    X, y = table_for(name)
    theirs, ours = (kind(n_estimators=2).fit(X, y) for kind in (with_own_predict(CLASSES[name]), CLASSES[name]))
    assert theirs.score(X, y) == ours.score(X, y)
    if hasattr(ours, "conformalize"):
        theirs.conformalize(X, y), ours.conformalize(X, y)
        answer = "predict_set" if hasattr(ours, "predict_set") else "predict_interval"
        np.testing.assert_array_equal(getattr(theirs, answer)(X), getattr(ours, answer)(X))
    if hasattr(ours, "predict_survival_function"):
        np.testing.assert_array_equal(*(model.predict_survival_function(X, [1.0]) for model in (theirs, ours)))


class OfFrames(fastens.RandomForestClassifier):
    """It makes a column of its own, as pandas does it."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(self.with_sum(X), y, sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(self.with_sum(X))

    def with_sum(self, X):
        assert X["word"].dropna().isin(["few", "many"]).all()
        return X.assign(sum=X["a"] + X["b"]).drop(columns="a")


@pytest.mark.parametrize(
    "make",
    [
        lambda own: fastens.StackingClassifier([("own", own), ("nb", fastens.MixedNB())]),
        lambda own: fastens.VotingClassifier([("own", own), ("nb", fastens.MixedNB())], voting="soft"),
        lambda own: fastens.BaggingClassifier(own, n_estimators=2),
        fastens.ConformalClassifier,
    ],
)
def test_members_get_the_frames_that_were_given(make, rng):
    X = pd.DataFrame(rng.standard_normal((90, 2)), columns=["a", "b"])
    X["word"] = rng.choice(np.array(["few", "many", None], dtype=object), 90)
    y = (X["a"] + X["b"] > 0).to_numpy()
    found = make(OfFrames(5, random_state=0)).fit(X, y).predict(X)
    assert np.mean(found == y) > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda own: fastens.VotingRegressor([("own", own)]),
        lambda own: fastens.BaggingRegressor(own, n_estimators=2),
        fastens.ConformalRegressor,
    ],
)
def test_derived_predictions_are_not_explained(make, rng):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)

    class Twice(fastens.DecisionTreeRegressor):
        def predict(self, X):
            return 2 * super().predict(X)

    with pytest.raises(ValueError, match=r"must be a tree model of fastens to be explained.*got Twice\("):
        make(Twice()).fit(X, y).explain(X)


def test_values_of_members_are_checked(rng):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)

    class Logarithms(fastens.RandomForestRegressor):
        def predict(self, X):
            with np.errstate(invalid="ignore"):
                return np.log(super().predict(X))

    with pytest.raises(ValueError, match="must return finite numbers"):
        fastens.VotingRegressor([("own", Logarithms(2))]).fit(X, y).predict(X)


def test_methods_of_any_kind():
    class Own(fastens.DecisionTreeClassifier):
        @functools.wraps(np.add)
        def added(self, *numbers):
            """Numbers together."""
            return np.add(*numbers)

        def predict(self, X):
            """As {X} says."""
            return super().predict(X)

    assert Own().added(1, 2) == 3
    assert Own.predict.__doc__ == "As {X} says."


def test_a_parameter_that_the_base_does_not_know():
    class Own(fastens.GaussianNB):
        def __init__(self, smoothing=1e-9, n_trees=3):
            super().__init__(n_trees=n_trees)

    with pytest.raises(TypeError, match=r"^GaussianNB\.__init__\(\) got an unexpected keyword argument 'n_trees'\.$"):
        Own()
    with pytest.raises(TypeError, match=r"^Own\.__init__\(\) got an unexpected keyword argument 'zz'\.$"):
        Own(zz=1)


def test_methods_that_are_properties(rng):
    X = rng.standard_normal((60, 2))

    class Own(fastens.GaussianNB):
        @property
        def predict_proba(self):
            return super().predict_proba

    ours, theirs = (
        fastens.VotingClassifier([("own", make())], voting="soft").fit(X, X[:, 0] > 0).predict_proba(X)
        for make in (fastens.GaussianNB, Own)
    )
    np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("kind", [fastens.RandomForestRegressor, fastens.GradientBoostingRegressor])
def test_models_whose_constructor_has_no_number_of_trees_are_merged(kind, rng):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)

    class Own(kind):
        def __init__(self, random_state=None):
            super().__init__(n_estimators=3, random_state=random_state)

    ours, theirs = (
        fastens.merge_models([make(random_state=seed).fit(X, y) for seed in (0, 1)])
        for make in (functools.partial(kind, n_estimators=3), Own)
    )
    assert theirs.n_estimators == ours.n_estimators
    assert getattr(theirs, "bootstrap", None) == getattr(ours, "bootstrap", None)
    np.testing.assert_array_equal(theirs.predict(X), ours.predict(X))


def test_fits_of_fewer_parameters_are_resumed(rng, tmp_path):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)

    class Own(fastens.GradientBoostingRegressor):
        def __init__(self, n_estimators=4):
            super().__init__(n_estimators=n_estimators, early_stopping=fastens.EarlyStopping(), random_state=0)

    first = Own(2)
    first.callbacks = [fastens.Checkpoint(tmp_path / "model", every=1)]
    first.fit(X, y)
    np.testing.assert_array_equal(Own().fit(X, y, resume=tmp_path / "model").predict(X), Own().fit(X, y).predict(X))
