"""Reading one item ahead, within the limits of threads of the reader."""

from __future__ import annotations

import threading

import pytest

from fastens.engine import threads
from fastens.table.sources import ahead


def test_one_item_is_made_ahead_and_no_more():
    made, limits = [], []

    def items():
        for item in range(5):
            limits.append(threads.resolve_n_jobs(8))
            made.append(item)
            yield item
        raise OSError("the line is dead")

    before = threading.active_count()
    with threads.limited_threads(1):
        found = ahead(items())
        for item in range(3):
            assert next(found) == item
            assert len(made) <= item + 2
        found.close()
        assert threading.active_count() == before
        with pytest.raises(OSError, match="the line is dead"):
            list(ahead(items()))
    assert threading.active_count() == before
    assert made == [*range(len(made) - 5), *range(5)]
    assert set(limits) == {1}
    assert list(ahead([])) == []
