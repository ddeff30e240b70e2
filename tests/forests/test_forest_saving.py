"""Trees and forests in files and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier as PeerForest

import fastens
from fastens import ModelFileError, RandomForestClassifier, RandomForestRegressor
from fastens.modelfile import storage
from reference.forests import CASES, FORESTS, make, make_table, make_targets, outputs


@pytest.fixture
def rows():
    rng = np.random.default_rng(7)
    X = make_table(rng, 120)
    return X, make_targets(X, rng)


def through_file(model, folder):
    model.save(folder / "model.fastens")
    return fastens.load(folder / "model.fastens")


def through_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Some rows are in all bags")
@pytest.mark.parametrize("send", [through_file, through_pickle])
@pytest.mark.parametrize(("kind", "target"), CASES)
def test_everything_comes_back(send, kind, target, rows, tmp_path):
    X, targets = rows
    bagged = {"bootstrap": True, "oob_score": True} if kind in FORESTS else {}
    model = make(kind, **bagged).fit(X, targets[target], np.arange(len(X)) % 3)
    found = send(model, tmp_path)
    assert found.get_params() == model.get_params()
    np.testing.assert_array_equal(outputs(found, X), outputs(model, X))
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    np.testing.assert_array_equal(found.apply(X), model.apply(X))
    np.testing.assert_array_equal(found.feature_importances_, model.feature_importances_)
    assert found.n_outputs_ == model.n_outputs_
    if bagged:
        np.testing.assert_array_equal(found.in_bag(3), model.in_bag(3))
        np.testing.assert_array_equal(found._out_of_bag.mean, model._out_of_bag.mean)
        np.testing.assert_array_equal(found.oob_error_curve_, model.oob_error_curve_)
        assert found.oob_score_ == model.oob_score_
        found.set_params(warm_start=True, n_estimators=12).fit(X, targets[target], np.arange(len(X)) % 3)
        more = make(kind, n_estimators=12, **bagged).fit(X, targets[target], np.arange(len(X)) % 3)
        np.testing.assert_array_equal(outputs(found, X), outputs(more, X))


def test_a_function_is_not_saved(rows, tmp_path):
    X, targets = rows
    model = make(RandomForestClassifier, n_estimators=30, oob_score=lambda y, p: 0.5).fit(X, targets["binary"])
    with pytest.raises(ValueError, match=r"oob_score=.* cannot be saved"):
        model.save(tmp_path / "model.fastens")


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, meta: arrays.pop("bootstrap.order"),
        lambda arrays, meta: arrays.update({"bootstrap.order": np.zeros(120, np.uint32)}),
        lambda arrays, meta: arrays.update({"out_of_bag.mean": np.zeros((120, 2))}),
        lambda arrays, meta: arrays.update({"out_of_bag.mean": np.zeros(120)}),
        lambda arrays, meta: meta["door"].update(classes={"dtype": "<i8", "values": [0, 1, 2]}),
        lambda arrays, meta: meta["parameters"].update(n_estimators=0),
    ],
)
def test_files_that_do_not_fit_together_are_refused(change, rows, tmp_path):
    X, targets = rows
    model = make(RandomForestClassifier, n_estimators=30, oob_score=True).fit(X, targets["binary"])
    arrays, meta = model._to_state()
    change(arrays, meta)
    storage.save(tmp_path / "model.fastens", "RandomForestClassifier", arrays, meta)
    with pytest.raises(ModelFileError):
        fastens.load(tmp_path / "model.fastens")


@pytest.mark.slow
@pytest.mark.parametrize("max_bins", [255, 1000])
def test_a_pickle_is_a_quarter_of_the_peers(max_bins, rng):
    X = rng.standard_normal((3000, 8)).astype(np.float32)
    y = (X[:, 0] + rng.standard_normal(3000) > 0).astype(int)
    ours = len(pickle.dumps(RandomForestClassifier(20, max_bins=max_bins).fit(X, y)))
    theirs = len(pickle.dumps(PeerForest(20).fit(X, y)))
    assert ours < theirs / 4


def test_predicting_changes_no_pickle(rows):
    X, targets = rows
    model = make(RandomForestRegressor).fit(X, targets["numbers"])
    before = pickle.dumps(model)
    model.predict(X)
    _ = model.estimators_[0], model.feature_importances_
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("bootstrap", [False, True])
def test_bags_match_fit_whatever_the_parameter_is_by_now(bootstrap, rng, tmp_path):
    X = rng.normal(size=(30, 2))
    forest = RandomForestRegressor(3, bootstrap=bootstrap, random_state=0).fit(X, X[:, 0])
    forest.set_params(bootstrap=not bootstrap)
    forest.save(tmp_path / "forest")
    loaded = fastens.load(tmp_path / "forest")
    np.testing.assert_array_equal(loaded.predict(X), forest.predict(X))
    if bootstrap:
        np.testing.assert_array_equal(loaded.in_bag(0), forest.in_bag(0))
