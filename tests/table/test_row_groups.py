"""Row groups of Parquet files, which are read as a whole or by pages, and datasets that are filtered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from fastens.table.sources import open_batches


def test_large_row_groups_and_filtered_datasets(tmp_path):
    """Row groups that are read by pages give the rows of those that are read as a whole."""
    n = (1 << 18) + 5
    table = pa.table({"a.b": np.arange(n), "word": pa.array([f"w{i % 7}" for i in range(n)])})
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=n)
    batches = list(open_batches(tmp_path / "large.parquet").parts())
    assert pa.concat_tables(batches).equals(table)
    filtered = pyarrow.dataset.dataset(tmp_path / "large.parquet").filter(pyarrow.dataset.field("a.b") < 10)
    assert pa.concat_tables(open_batches(filtered).parts()).equals(table.slice(0, 10))
