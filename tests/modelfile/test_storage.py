"""Files come back as they were, or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import fastens
from fastens.files.schema import Column, TableSchema
from fastens.modelfile import storage
from fastens.modelfile.storage import ModelFileError, replacing
from reference.full_disk import full_disk

ARRAYS = {
    "value": np.array([0.1, np.nan, -np.inf, 1e-308]),
    "codes": np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
    "flags": np.array([True, False]),
    "names": np.array(["a", "größer", "", "☃"]),
    "none": np.empty((0, 3), dtype=np.float32),
    "one": np.array(7, dtype=np.int64),
    "big_endian": np.array([1, 2], dtype=">i4"),
}
META = {"parameters": {"n_estimators": 100, "max_depth": None}, "text": "größer ☃", "numbers": [1, 2.5, 0.1]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.fastens"
    storage.save(path, "Model", ARRAYS, META)
    return path


def rewrite(path, change):
    """Change the header of a file and make its checksum right again."""
    content = path.read_bytes()
    _, version, length = storage.PREFIX.unpack_from(content)
    end = storage.HEADER_START + length
    header = json.dumps(change(json.loads(content[storage.HEADER_START : end]))).encode()
    padding = bytes(-(storage.HEADER_START + len(header)) % storage.ALIGNMENT)
    body = header + padding + content[end + -end % storage.ALIGNMENT :]
    prefix = storage.PREFIX.pack(storage.MAGIC, version, len(header))
    path.write_bytes(prefix + storage._checksum(prefix, body) + body)


def test_round_trip(path):
    kind, arrays, meta = storage.load(str(path))
    assert kind == "Model"
    assert meta == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].shape == array.shape
        assert arrays[name].dtype == array.dtype.newbyteorder("=")
        assert not arrays[name].flags.writeable


def test_same_content_same_bytes(path, tmp_path):
    storage.save(tmp_path / "again", "Model", ARRAYS, META)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("wrong", [np.array([{}]), np.array([1j]), np.array([b"a"]), np.zeros(1, "f2,f4")], ids=str)
def test_save_refuses_other_arrays_and_leaves_the_file(path, wrong):
    before = path.read_bytes()
    with pytest.raises(TypeError, match="'wrong' must hold"):
        storage.save(path, "Model", {"wrong": wrong}, {})
    with pytest.raises(TypeError):
        storage.save(path, "Model", {}, {"a function": len})
    assert path.read_bytes() == before


def test_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        storage.save(path, "Other", {}, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    X = np.arange(40.0).reshape(20, 2) % 3
    tree, network = fastens.DecisionTreeClassifier().fit(X, X[:, 0] > 0), fastens.BayesianNetwork().fit(X, X[:, 0])
    schema = TableSchema({f"column {i}": Column("number") for i in range(9)})
    for name, write in {
        "model": tree.save,
        "names.toml": schema.save,
        "network.bif": network.write_bif,
        "network.bif.gz": network.write_bif,
        "tree.h": lambda path: tree.export(path, format="c"),
    }.items():
        path = tmp_path / name
        write(path)
        whole = path.read_bytes()
        path.write_bytes(b"old")
        for n_bytes in (0, 1, len(whole) - 1):
            with full_disk(n_bytes), pytest.raises(OSError, match="File too large"):
                write(path)
            assert path.read_bytes() == b"old"
        with full_disk(len(whole)):
            write(path)
        assert path.read_bytes() == whole
    assert len(os.listdir(tmp_path)) == 5


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_permissions_match_any_new_file(path):
    (path.parent / "other").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((path.parent / "other").stat().st_mode)


def test_flipped_bits_are_noticed(path):
    content = path.read_bytes()
    for position in [*range(200), *range(200, len(content), 7)]:
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            storage.load(path)


@pytest.mark.slow
def test_truncation_is_noticed(path):
    content = path.read_bytes()
    for length in [*range(200), *range(200, len(content), 7)]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            storage.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ModelFileError):
        storage.load(path)


@pytest.mark.parametrize("content", [b"", b"\x80\x05K\x01.", b"PK\x03\x04", b"tree\nversion=v4", bytes(99)], ids=repr)
def test_foreign_files(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not a fastens model"):
        storage.load(path)


def test_later_version(path):
    content = bytearray(path.read_bytes())
    content[8] = 2
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="version 2"):
        storage.load(path)


def changed_entry(**entry):
    return lambda header: header | {"arrays": [header["arrays"][0] | entry, *header["arrays"][1:]]}


@pytest.mark.parametrize(
    "change",
    [
        changed_entry(dtype="|O"),
        changed_entry(dtype="<f8,<f8"),
        changed_entry(dtype="<c8"),
        changed_entry(dtype="<U0"),
        changed_entry(dtype="|b1"),
        changed_entry(dtype="<U1", shape=[8]),
        changed_entry(dtype=8),
        changed_entry(shape=[9]),
        changed_entry(shape=[-4]),
        changed_entry(shape=[2**62, 4]),
        changed_entry(shape=[4.0]),
        changed_entry(shape=[True]),
        changed_entry(shape=[1] * 40),
        changed_entry(shape="4"),
        changed_entry(name=1),
        changed_entry(name="codes"),
        lambda header: header | {"arrays": header["arrays"][:-1]},
        lambda header: header | {"arrays": header["arrays"] * 2},
        lambda header: header | {"arrays": {}},
        lambda header: header | {"arrays": [1]},
        lambda header: header | {"arrays": [{}]},
        lambda header: header | {"kind": 1},
        lambda header: header | {"meta": []},
        lambda header: [],
        lambda header: {},
    ],
)
def test_headers_that_do_not_fit(path, change):
    rewrite(path, change)
    with pytest.raises(ModelFileError):
        storage.load(path)


@pytest.mark.parametrize("header", [b"{", b"\xff", b"[" * 100_000, b"1" * 5000], ids=["open", "bytes", "deep", "long"])
def test_headers_that_are_not_json(path, header):
    prefix = storage.PREFIX.pack(storage.MAGIC, storage.VERSION, len(header))
    path.write_bytes(prefix + storage._checksum(prefix, header) + header)
    with pytest.raises(ModelFileError):
        storage.load(path)


class Model:
    def __init__(self, value):
        self.value = value

    def _to_state(self):
        return {"value": self.value}, {"n": len(self.value)}

    @classmethod
    def _from_state(cls, arrays, meta):
        if meta["n"] != len(arrays["value"]):
            raise ValueError("wrong n")
        return cls(arrays["value"])


def test_models(path):
    storage.save_model(path, Model(np.arange(3)))
    np.testing.assert_array_equal(storage.load_model(path, {"Model": Model}.get, "Model").value, np.arange(3))
    with pytest.raises(ModelFileError, match="holds a 'Model', not one of Other"):
        storage.load_model(path, {"Other": Model}.get, "Other")
    for arrays, meta in [({}, {"n": 0}), ({"value": np.arange(3)}, {}), ({"value": np.arange(3)}, {"n": 2})]:
        storage.save(path, "Model", arrays, meta)
        with pytest.raises(ModelFileError, match="does not describe a Model"):
            storage.load_model(path, {"Model": Model}.get, "Model")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.load(tmp_path / "nothing")


def test_a_path_is_not_a_number(path):
    """That of an open file, which would be closed."""
    with open(path, "wb") as file, pytest.raises(TypeError, match="not int"):
        storage.load(file.fileno())
    with pytest.raises(ValueError, match="allow_pickle must be True or False; got 'no'"):
        fastens.load(path, allow_pickle="no")


def test_names_as_long_as_a_system_allows(tmp_path):
    for name in ("m" * 247 + ".fastens", "é" * 120 + ".csv"):
        with replacing(tmp_path / name) as unfinished:
            assert unfinished.endswith(Path(name).suffix)
            Path(unfinished).write_text("whole")
        assert (tmp_path / name).read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 2
