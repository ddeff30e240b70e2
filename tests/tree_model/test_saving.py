"""Estimators in files: they come back as they were, or the file is refused."""

from __future__ import annotations

import json
import os
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor, ModelFileError
from fastens.modelfile import storage
from reference.children import run_child
from reference.models import LOSSES, make_model, make_target, outputs

FITTED = (
    "n_features_in_",
    "n_estimators_",
    "feature_importances_",
    "feature_split_counts_",
)


def make_frame(rng, n_rows=200):
    return pd.DataFrame(
        {
            "number": np.where(rng.random(n_rows) < 0.1, np.nan, rng.standard_normal(n_rows)),
            "größe": pd.Categorical(rng.choice(["klein", "groß", "☃"], n_rows)),
            "flag": rng.random(n_rows) < 0.5,
            "shop": rng.integers(0, 5, n_rows),
            "word": rng.choice(["a", "b", None], n_rows),
        }
    )


def through_file(model, tmp_path):
    model.save(tmp_path / "model.fastens")
    return fastens.load(tmp_path / "model.fastens")


def through_pickle(model, tmp_path):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    return joblib.load(tmp_path / "model.joblib", mmap_mode="r")


@pytest.fixture(params=[through_file, through_pickle, through_joblib])
def send(request, tmp_path):
    return lambda model: request.param(model, tmp_path)


def assert_same(found, model, X):
    assert type(found) is type(model)
    np.testing.assert_array_equal(outputs(found, X), outputs(model, X))
    np.testing.assert_array_equal(found.apply(X), model.apply(X))
    np.testing.assert_array_equal(list(found.staged_predict(X)), list(model.staged_predict(X)))
    np.testing.assert_equal(dict(found.evals_result_), dict(model.evals_result_))
    for name in FITTED:
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
        assert isinstance(getattr(found, name), type(getattr(model, name)))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_comes_back(loss, send, rng):
    X = rng.standard_normal((200, 3))
    y = make_target(loss, X, rng)
    model = make_model(loss, subsample=0.9, random_state=3).fit(X, y, X_val=X[:50], y_val=y[:50])
    found = send(model)
    assert_same(found, model, X)
    assert found.get_params() == model.get_params()
    assert not hasattr(found, "feature_names_in_")


@pytest.mark.parametrize("estimator", [GradientBoostingClassifier, GradientBoostingRegressor])
def test_frames_and_categories_come_back(estimator, send, rng):
    frame = make_frame(rng)
    y = (frame["größe"] == "groß") * 2 + frame["flag"]
    options = {"n_estimators": 9, "categorical_features": ["größe", "flag", "shop", "word"], "max_bins": 300}
    model = estimator(**options).fit(frame, y)
    found = send(model)
    assert_same(found, model, frame)
    assert found.feature_names_in_.tolist() == list(frame)
    assert found.feature_names_in_.dtype == object
    other = make_frame(np.random.default_rng(1)).replace({"word": {"a": "new"}})[list(frame)[::-1]]
    np.testing.assert_array_equal(found.predict(pl.DataFrame(other)), model.predict(other))
    assert found.get_params()["categorical_features"] == options["categorical_features"]


LABELS = {
    "strings": ["ja", "nein", "groß"],
    "integers": [-(2**62), 0, 2**62],
    "unsigned": np.array([0, 1, 2**64 - 1], dtype=np.uint64),
    "small": np.array([-3, 0, 5], dtype=np.int8),
    "floats": [-1e300, 0.0, 1e15],
    "booleans": [False, True],
    "objects": np.array(["x", "yy", "zzz"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back(kind, send, rng):
    labels = np.asarray(LABELS[kind])
    X = rng.standard_normal((150, 2))
    y = labels[rng.integers(0, len(labels), 150)]
    model = GradientBoostingClassifier(n_estimators=3).fit(X, y)
    found = send(model)
    assert found.classes_.dtype == model.classes_.dtype
    assert found.classes_.tolist() == model.classes_.tolist()
    assert found.predict(X).dtype == model.predict(X).dtype
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="no such strings")
def test_strings_of_any_length_come_back_as_strings(send, rng):
    X = rng.standard_normal((150, 2))
    y = np.array(["x", "yyy"])[(X[:, 0] > 0).astype(int)]
    model = GradientBoostingClassifier(n_estimators=9).fit(X, y.astype(np.dtypes.StringDType()))
    assert send(model).classes_.tolist() == ["x", "yyy"]
    assert send(model).score(X, y) > 0.9


@pytest.mark.parametrize(
    "options",
    [
        {"class_weight": {"no": 2.0, "yes": 1}},
        {"class_weight": {0: 2.0, 1: 1}},
        {"class_weight": "balanced"},
        {"random_state": np.random.RandomState(0), "subsample": 0.5},
        {"max_features": np.int64(2), "learning_rate": np.float32(0.1)},
        {"categorical_features": np.array([True, False, False])},
        {"categorical_features": (0, 2)},
        {"max_leaf_nodes": None, "max_depth": 3, "early_stopping": np.False_, "n_jobs": 2},
        {"categorical_features": pd.Index([0, 2])},
        {"feature_weights": pd.Series([1.0, 2.0, 1.0]), "monotonic_cst": pl.Series([1, 0, 0]), "max_features": 2},
    ],
    ids="-".join,
)
def test_every_parameter_can_be_saved(options, tmp_path, rng):
    X = rng.integers(0, 9, (150, 3)).astype(float)
    index = (X[:, 0] > 4).astype(int)
    names_strings = isinstance(options.get("class_weight"), dict) and "no" in options["class_weight"]
    y = np.array(["no", "yes"])[index] if names_strings else index
    model = GradientBoostingClassifier(n_estimators=4, **options).fit(X, y)
    found = through_file(model, tmp_path)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    if "random_state" not in options:
        again = found.fit(X, y)
        if options.keys().isdisjoint({"max_features"}):
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_equal(through_file(again, tmp_path).get_params(), found.get_params())


def test_metadata_and_refit(tmp_path, rng):
    X = rng.standard_normal((100, 2))
    model = GradientBoostingRegressor(n_estimators=3).fit(X, X[:, 0])
    metadata = {"target": "größe", "scores": [0.5, {"rmse": 1e-3}], "rows": 100}
    model.save(tmp_path / "model", metadata=metadata)
    found = fastens.load(str(tmp_path / "model"))
    assert found.metadata_ == metadata
    through_file(found, tmp_path)
    assert fastens.load(tmp_path / "model.fastens").metadata_ == metadata
    for wrong, rule in (
        ({"what": object()}, "must be JSON-serializable"),
        ("text", "must be a dict or None"),
        ({"a": [{1: 2}]}, "must be JSON-serializable: keys must be str, not int"),
    ):
        with pytest.raises(TypeError, match=f"metadata {rule}"):
            model.save(tmp_path / "model", metadata=wrong)
        assert fastens.load(tmp_path / "model").metadata_ == metadata
    model.save(tmp_path / "model")
    assert fastens.load(tmp_path / "model").metadata_ == metadata
    with pytest.raises(ValueError, match="NaN"):
        found.fit(X, np.full(100, np.nan))
    assert found.metadata_ == metadata
    assert found.fit(X, X[:, 1]).metadata_ is None


def test_same_model_same_bytes(tmp_path, rng):
    X = rng.standard_normal((100, 2))
    for name in ("first", "second"):
        GradientBoostingRegressor(n_estimators=3).fit(X, X[:, 0]).save(tmp_path / name)
    fastens.load(tmp_path / "first").save(tmp_path / "third")
    contents = [(tmp_path / name).read_bytes() for name in ("first", "second", "third")]
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_another_process_predicts_the_same(tmp_path, rng):
    frame = make_frame(rng)
    model = GradientBoostingRegressor(n_estimators=5).fit(frame, frame["shop"])
    model.save(tmp_path / "model.fastens")
    frame.to_pickle(tmp_path / "frame.pickle")
    code = (
        "import sys, fastens, numpy, pandas; from pathlib import Path; folder = Path(sys.argv[1]);"
        "X = pandas.read_pickle(folder / 'frame.pickle');"
        "numpy.save(folder / 'out.npy', fastens.load(folder / 'model.fastens').predict(X))"
    )
    assert run_child(code, tmp_path, folder=tmp_path).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), model.predict(frame))


# Files that are no models --------------------------------------------------


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a saved classifier with all there is: names, categories, classes, metadata."""
    frame = make_frame(np.random.default_rng(0))
    path = tmp_path_factory.mktemp("content") / "model"
    labels = frame["größe"].astype(str)
    GradientBoostingClassifier(n_estimators=2, max_leaf_nodes=5).fit(frame, labels).save(path, {"note": "x"})
    return path.read_bytes()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("mutated") / "model"


def test_truncated_files(content, path):
    for length in [*range(0, 200, 7), *range(200, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            fastens.load(path)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_changed_bytes(content, path, data):
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    with pytest.raises(ModelFileError):
        fastens.load(path)


def sealed(header, body):
    """A file with a right checksum, whatever it holds."""
    header = json.dumps(header).encode()
    body = header + bytes(-(storage.HEADER_START + len(header)) % storage.ALIGNMENT) + body
    prefix = storage.PREFIX.pack(storage.MAGIC, storage.VERSION, len(header))
    return prefix + storage._checksum(prefix, body) + body


def opened(content):
    _, _, length = storage.PREFIX.unpack_from(content)
    end = storage.HEADER_START + length
    return json.loads(content[storage.HEADER_START : end]), content[end + -end % storage.ALIGNMENT :]


def places(value, place=()):
    """Every place in nested JSON."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*place, key))


def put(value, place, new):
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], new)
    return copy


def assert_refused_or_safe(path):
    """A file whose checksum is right may describe another model, but nothing may break."""
    try:
        model = fastens.load(path)
    except ModelFileError:
        return
    X = make_frame(np.random.default_rng(2), 20)
    try:
        assert model.predict_proba(X).shape[0] == 20
    except ValueError:  # the columns of X are not those the file names
        return
    model.predict(X)
    next(model.staged_predict(X), None)
    model.apply(X)
    repr(model)


STRANGE = [None, True, -1, 0, 7, 2**70, 1e308, float("nan"), "", "x", [], {}, [[]], [None], {"pairs": 3}, ["a", "a"]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_changed_headers(content, path, rng):
    header, body = opened(content)
    for place in places(header):
        for new in rng.permutation(np.array(STRANGE, dtype=object))[:4].tolist():
            path.write_bytes(sealed(put(header, place, new), body))
            assert_refused_or_safe(path)


@pytest.mark.parametrize(
    ("model", "name", "new"),
    [
        (GradientBoostingRegressor(n_estimators=2), "fitted._n_targets", 2**40),
        (GradientBoostingRegressor(n_estimators=2), "ensemble.baseline", [np.inf]),
        (fastens.BayesTreeRegressor(), "fitted._variance", []),
        (fastens.ConformalClassifier(fastens.GaussianNB(), cv=2), "n_parts", -1),
        (fastens.CascadeForestRegressor([("tree", fastens.DecisionTreeRegressor())], cv=2), "n_levels", -1),
        (fastens.RandomForestClassifier(2), "classes", []),
    ],
)
def test_parts_that_do_not_fit_together(model, name, new, path, rng):
    """Found by fuzzing: they took all memory, or `predict` raised IndexError."""
    X = rng.random((40, 2))
    arrays, meta = model.fit(X, X[:, 0] > 0.5)._to_state()
    if name == "classes":
        meta["door"][name]["values"] = new
    else:
        arrays[name] = np.array(new)
    storage.save(path, type(model).__name__, arrays, meta)
    with pytest.raises(ModelFileError):
        fastens.load(path)


def test_questions_of_another_type_are_read(path, rng):
    X = rng.random((40, 2))
    model = fastens.ExactTreeAverageClassifier().fit(X, X[:, 0] > 0.5)
    arrays, meta = model._to_state()
    arrays["question.column"] = arrays["question.column"].astype(np.float32)
    storage.save(path, type(model).__name__, arrays, meta)
    np.testing.assert_array_equal(fastens.load(path).predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(st.data())
def test_changed_arrays(content, path, data):
    header, body = opened(content)
    place = data.draw(st.integers(0, len(body) - 1))
    changed = bytearray(body)
    changed[place] = data.draw(st.sampled_from([0, 1, 2, 7, 127, 128, 255]))
    path.write_bytes(sealed(header, bytes(changed)))
    assert_refused_or_safe(path)


@pytest.mark.parametrize("kind", ["GradientBoostingRegressor", "BaseFastens", "cli", "os.system", "", "__import__"])
def test_other_kinds(kind, content, path):
    header, body = opened(content)
    path.write_bytes(sealed({**header, "kind": kind}, body))
    with pytest.raises(ModelFileError):
        fastens.load(path)


@pytest.mark.parametrize(
    "foreign", [b"", b"\x80\x04N.", b"PK\x03\x04", b"tree\nversion=v4\n", b"{}", bytes(500)], ids=str
)
def test_foreign_files(foreign, path):
    path.write_bytes(foreign)
    with pytest.raises(ModelFileError, match="not a fastens model"):
        fastens.load(path)


def test_pickles_are_not_opened(path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code of the file was run",))

    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelFileError):
        fastens.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        fastens.load(tmp_path / "nothing")


class GradientBoostingOfMine(GradientBoostingRegressor):
    """A class of a user."""

    def predict(self, X):
        return 2 * super().predict(X)


@pytest.mark.parametrize("name", ["GradientBoostingOfMine", "GradientBoostingRegressor"])
def test_derived_classes_are_not_written(name, tmp_path, rng):
    """A file would come back as nothing, or as the class of ours whose name it has."""
    kind = type(name, (GradientBoostingOfMine,), {})
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    model = kind(n_estimators=2).fit(X, y)
    with pytest.raises(
        TypeError, match=rf"save must be called on an estimator class of fastens.* Pickle a .*\.{name} instead"
    ):
        model.save(tmp_path / "model.fastens")
    vote = fastens.VotingRegressor([("mine", model)], prefit=True).fit(X, y)
    with pytest.raises(TypeError, match=f"{name}, which fastens can save only as a pickle"):
        vote.save(tmp_path / "model.fastens")


def test_derived_classes_go_on_from_checkpoints(tmp_path, rng):
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    path = tmp_path / "model.fastens"
    GradientBoostingOfMine(n_estimators=2, callbacks=[fastens.Checkpoint(path, every=1)]).fit(X, y)
    more = GradientBoostingOfMine(n_estimators=4).fit(X, y, resume=path)
    np.testing.assert_array_equal(more.predict(X), GradientBoostingOfMine(n_estimators=4).fit(X, y).predict(X))
