"""Tables of Arrow of kinds that are met less often than files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pytest

import fastens as fe

TABLE = pa.table({"a": np.arange(90.0) % 7, "word": ["low", None, "high"] * 30, "y": np.arange(90.0) % 5})


def stream_of_bytes():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, 20)
    return pa.ipc.open_stream(sink.getvalue())


KINDS = {
    "dataset in memory": lambda: pa.dataset.dataset(TABLE),
    "datasets": lambda: pa.dataset.dataset([pa.dataset.dataset(TABLE[:40]), pa.dataset.dataset(TABLE[40:])]),
    "stream of bytes": stream_of_bytes,
    "function of streams of bytes": lambda: stream_of_bytes,
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind):
    model, whole = (fe.DecisionTreeRegressor().fit(X, "y") for X in (KINDS[kind](), TABLE))
    found = model.predict(KINDS[kind]())
    found = found if isinstance(found, np.ndarray) else found.read_all()["prediction"].to_numpy()
    np.testing.assert_array_equal(found, whole.predict(TABLE))
    assert model.score(KINDS[kind](), "y") == whole.score(TABLE, "y")


@pytest.mark.filterwarnings("error::UserWarning")  # of names that were not known in fit
def test_members_of_codes_know_columns_of_dates():
    frame = pd.DataFrame({"when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(90) % 50, unit="D")})
    frame["y"] = frame["when"].dt.dayofyear + np.arange(90.0) % 3
    table = fe.BinnedTable.from_source(frame, "y")
    for kind in (fe.StackingRegressor, fe.VotingRegressor):
        model = kind([("boosting", fe.GradientBoostingRegressor(n_estimators=2))]).fit(table)
        np.testing.assert_array_equal(model.predict(frame[["when"]]), model.predict(table))
