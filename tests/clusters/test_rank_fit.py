"""What a rank makes of its partitions."""

from __future__ import annotations

import numpy as np

from fastens.distributed.rank_fit import join_partitions


def test_masked_values_of_partitions_stay_masked():
    parts = [np.arange(3.0), np.ma.masked_array([3.0, 4.0], [True, False])]
    assert join_partitions(parts, is_table=False).mask.tolist() == [False, False, False, True, False]
