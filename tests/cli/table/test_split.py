"""Which rows are held out, and finding them again."""

import numpy as np
import pytest

from fastens.cli.table.split import HoldoutSplit, held_out_rows
from fastens.cli.table.target import CLASSIFICATION, REGRESSION


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5])
def test_every_class_gives_its_share(rng, fraction):
    strata = rng.choice(4, 1000, p=[0.7, 0.2, 0.08, 0.02])
    held_out = held_out_rows(strata, fraction, 0)
    assert held_out.sum() == pytest.approx(1000 * fraction, abs=1)
    for stratum in range(4):
        n_rows = np.sum(strata == stratum)
        assert held_out[strata == stratum].sum() == pytest.approx(n_rows * fraction, abs=1)
    assert not np.array_equal(held_out, held_out_rows(strata, fraction, 1))
    assert np.array_equal(held_out, held_out_rows(strata, fraction, 0))


def test_classes_of_one_row_are_trained_on():
    assert not held_out_rows(np.arange(50), 0.5, 0).any()


def test_nothing_held_out():
    assert not held_out_rows(np.zeros(10, dtype=int), 0.0, 0).any()


@pytest.mark.parametrize(
    ("y", "task"), [(np.array(["a", "b"] * 20, dtype=object), CLASSIFICATION), (np.linspace(0, 1, 40), REGRESSION)]
)
def test_a_table_is_known_by_its_target(y, task):
    split = HoldoutSplit.for_target(y, 0.25, 3)
    assert split.matches_target(y.copy())
    assert not split.matches_target(y[::-1])
    assert split.mark_held_out(y, task).sum() == 10
    assert np.array_equal(split.mark_held_out(y, task), HoldoutSplit(0.25, 3, 0).mark_held_out(y, task))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float32, np.float64, bool])
def test_a_table_is_known_in_files_that_store_its_target_by_other_types(dtype):
    y = np.array([0, 1, 1, 0, 1] * 8)
    assert HoldoutSplit.for_target(y, 0.25, 3).matches_target(y.astype(dtype))
    assert not HoldoutSplit.for_target(y, 0.25, 3).matches_target(y[::-1].astype(dtype))
