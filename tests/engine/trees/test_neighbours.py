"""Rows that share leaves, where there is no memory for the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fastens.engine.trees import neighbours
from fastens.engine.trees.leaf_values import LeafRows


class NoRoom:
    """NumPy without memory for empty arrays."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, *args, **kwargs):
        raise MemoryError


def bytes_of_process():
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's size where Linux tells it")
def test_room_is_given_back_where_there_is_none_for_the_answer(monkeypatch):
    n_members = 1_000_000
    leaf = np.zeros((2, 1), np.int32)
    leaves = LeafRows(np.array([0, 1]), np.array([0, 2]), np.array([0, 1], np.uint32), None)
    monkeypatch.setattr(neighbours, "np", NoRoom())
    before = bytes_of_process()
    for _ in range(10):
        with pytest.raises(MemoryError):
            leaves.proximity(leaf, n_members, None, 1)
        with pytest.raises(MemoryError):
            leaves.quantiles(leaf, np.zeros(n_members), np.array([0.5]), 1)
    assert bytes_of_process() - before < 50_000_000
