"""Folders of tables that are binned once: what fits that were cut short leave in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import fastens as fe
from fastens.engine.bins import binned as places

X = np.random.default_rng(0).normal(size=(50, 3))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_of_a_killed_process_are_ignored(tmp_path):
    first = fe.BinnedTable.from_source(X, path=tmp_path / "t")
    expected = names(tmp_path / "t")
    for name in ("columns-2.npy", "table-2.json"):
        (tmp_path / "t" / name).write_bytes(b"cut short")
    table = fe.BinnedTable.open(first.path).append(X).append(X)
    assert len(fe.BinnedTable.open(table.path)) == len(table) == 150
    assert names(tmp_path / "t") == sorted(name.replace(first.version, table.version) for name in expected)


def test_other_files_in_the_folder_are_kept(tmp_path):
    table = fe.BinnedTable.from_source(X, path=tmp_path / "t")
    (tmp_path / "t" / "notes").mkdir()
    (tmp_path / "t" / "notes.txt").write_text("ours")
    assert len(table.append(X)) == 100
    assert {"notes", "notes.txt"} <= set(names(tmp_path / "t"))


def test_rows_are_not_appended_over_those_of_another_process(tmp_path, monkeypatch):
    table, set_aside = fe.BinnedTable.from_source(X, path=tmp_path / "t"), places.set_aside

    def append_before(file, n_bytes):
        monkeypatch.setattr(places, "set_aside", set_aside)
        fe.BinnedTable.open(tmp_path / "t").append(X[:7])
        set_aside(file, n_bytes)

    monkeypatch.setattr(places, "set_aside", append_before)
    with pytest.raises(ValueError, match="append must be called on the latest version of the table; rows have"):
        table.append(X)
    assert len(fe.BinnedTable.open(tmp_path / "t")) == 57


def test_ctrl_c_as_an_append_ends_removes_no_files(tmp_path, monkeypatch):
    table, describe = fe.BinnedTable.from_source(X, path=tmp_path / "t"), fe.BinnedTable._write_description

    def interrupted(*given):
        describe(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(fe.BinnedTable, "_write_description", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append(X)
    assert len(fe.BinnedTable.open(tmp_path / "t")) == 100


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="tells what is mapped")
def test_nothing_is_mapped_of_files_that_are_removed_after_an_error(tmp_path, monkeypatch):
    table, n_made, unlink = fe.BinnedTable.from_source(X, path=tmp_path / "t"), 0, Path.unlink

    def fail(file, n_bytes):
        nonlocal n_made
        n_made += 1
        if n_made % 3 == 0:
            raise OSError(errno.ENOSPC, "no space is left")
        set_aside(file, n_bytes)

    def unlink_unmapped(path, **options):
        assert str(path) not in Path("/proc/self/maps").read_text()  # Windows would not remove it
        unlink(path, **options)

    set_aside = places.set_aside
    monkeypatch.setattr(places, "set_aside", fail)
    monkeypatch.setattr(Path, "unlink", unlink_unmapped)
    before = names(tmp_path / "t")
    with pytest.raises(OSError, match="spill_dir or path must be on a disk with"):
        table.append(X)
    assert names(tmp_path / "t") == before
    with pytest.raises(OSError, match="spill_dir or path must be on a disk with"):
        fe.BinnedTable.from_source(X, path=tmp_path / "u")
    assert names(tmp_path) == ["t"]
