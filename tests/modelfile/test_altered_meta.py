"""Files whose JSON is altered give a ModelFileError or a model, and never take more memory than a small multiple."""

from __future__ import annotations

import copy
import json
import struct
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_iris

import fastens
from fastens.modelfile import storage

HOSTILE = [None, True, -1, 10**30, float("nan"), "<U200000000", [], {}, [2**62] * 3]
for _ in range(900):
    HOSTILE[-1] = [HOSTILE[-1]]
MODELS = {
    "boosting": lambda: fastens.GradientBoostingClassifier(n_estimators=1),
    "naive Bayes": fastens.GaussianNB,
    "voting": lambda: fastens.VotingClassifier([("tree", fastens.DecisionTreeClassifier(max_depth=1))]),
}


def places(value, place=()):
    """The keys that lead to each value in JSON."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*place, key))


def altered(value, place, other):
    if not place:
        return other
    value = copy.copy(value)
    value[place[0]] = altered(value[place[0]], place[1:], other)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_meta(name, tmp_path):
    X, y = load_iris(return_X_y=True)
    MODELS[name]().fit(X, np.array(["setosa", "b", "c"])[y]).save(tmp_path / "model")
    kind, arrays, meta = storage.load(tmp_path / "model")
    n_refused = 0
    for number, place in enumerate(list(places(meta))[1:]):
        for other in HOSTILE[number % 3 :: 3]:
            storage.save(tmp_path / "altered", kind, arrays, altered(meta, place, other))
            tracemalloc.start()
            try:
                fastens.load(tmp_path / "altered")
            except fastens.ModelFileError:
                n_refused += 1
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 2e7, (place, other)
    assert n_refused > 40


@pytest.fixture
def saved(tmp_path):
    X, y = load_iris(return_X_y=True)
    fastens.GaussianNB().fit(X, np.array(["setosa", "b", "c"])[y]).save(tmp_path / "model")
    return tmp_path / "model", *storage.load(tmp_path / "model")


def test_the_width_of_labels(saved):
    path, kind, arrays, meta = saved
    meta["door"]["classes"]["dtype"] = "<U200000000"
    storage.save(path, kind, arrays, meta)
    tracemalloc.start()
    model = fastens.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6
    assert model.classes_.tolist() == ["b", "c", "setosa"]


@pytest.mark.parametrize("depth", [150, 900, 100_000])
def test_deep_lists(saved, depth):
    path, kind, arrays, meta = saved
    meta["parameters"]["priors"] = "HERE"
    storage.save(path, kind, arrays, meta)
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content, 12)
    header = content[storage.HEADER_START :][:length].replace(b'"HERE"', b"[" * depth + b"]" * depth)
    header = json.dumps(json.loads(header)).encode() if depth < 500 else header
    body = header
    for array in arrays.values():
        body += bytes(-(storage.HEADER_START + len(body)) % storage.ALIGNMENT) + array.tobytes()
    prefix = storage.PREFIX.pack(storage.MAGIC, storage.VERSION, len(header))
    path.write_bytes(prefix + storage._checksum(prefix, body) + body)
    with pytest.raises(fastens.ModelFileError):
        fastens.load(path)


def test_marks_in_texts_are_not_levels(saved):
    path, *_ = saved
    model = fastens.load(path)
    text = '[{"\\' * 500
    model.save(path, metadata={text: text})
    assert fastens.load(path).metadata_ == {text: text}


@pytest.mark.parametrize(
    ("shape", "expected"), [((2**40,), fastens.ModelFileError), ((10,), MemoryError), (None, MemoryError)]
)
def test_only_a_claim_beyond_the_file_is_its_fault(saved, shape, expected, monkeypatch):
    path, *_ = saved

    def fail(*_):
        if shape is None:
            raise MemoryError
        error = MemoryError("no memory")
        error.shape = shape  # as NumPy's own has
        raise error

    monkeypatch.setattr(fastens.GaussianNB, "_restore_fitted", fail)
    with pytest.raises(expected) as found:
        fastens.load(path)
    assert type(found.value) is expected
