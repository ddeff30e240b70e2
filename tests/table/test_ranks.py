"""Tables of any kind that are divided among ranks: the categories, and the model, are those of one table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fastens import GradientBoostingRegressor
from fastens.params.options import Categories
from fastens.table.encoder import InputEncoder, Reading
from reference.threads_comm import on_ranks
from tests.table.test_parted_tables import PartsOnly

N_ROWS = 900


def frame_and_target():
    rng = np.random.default_rng(5)
    size, word = rng.normal(size=N_ROWS).round(1), rng.choice(list("dcba"), N_ROWS).astype(object)
    word[: N_ROWS // 4] = None  # all that the first of four ranks has
    word[-3:] = "e"  # which only the last one has
    number = rng.integers(0, 9, N_ROWS)
    number[-5:] = -4
    y = size + (word == "b") - 0.3 * number + rng.normal(size=N_ROWS)
    return pd.DataFrame({"size": size, "word": word, "number": number}), y


def rows_of(comm):
    bounds = list(pairwise(np.linspace(0, N_ROWS, comm.size + 1).astype(int)))
    return slice(*bounds[comm.rank])


KINDS = {
    "frame": lambda frame: frame,
    "parts of a frame": lambda frame: PartsOnly(frame, (50, 7), None),
    "array": lambda frame: frame.to_numpy(),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", ["missing", "category"])
@pytest.mark.parametrize("size", [2, 4])
def test_categories_of_all_ranks(kind, missing, size):
    frame, y = frame_and_target()
    options = Categories(encoding="partition", missing=missing)

    def fit(comm, own):
        model = GradientBoostingRegressor(n_estimators=6, categorical_features=[1, 2], categories=options)
        with model._using_comm(comm):
            return model.fit(KINDS[kind](frame[own].reset_index(drop=True)), y[own])

    whole = GradientBoostingRegressor(n_estimators=6, categorical_features=[1, 2], categories=options)
    whole.fit(KINDS[kind](frame), y)
    assert whole._encoder.categories[1:] == [list("abcde"), [-4, *range(9)]]
    for model in on_ranks(size, lambda comm: fit(comm, rows_of(comm))):
        assert model._encoder.to_state() == whole._encoder.to_state()
        for name, array in whole._ensemble.to_arrays().items():
            np.testing.assert_array_equal(model._ensemble.to_arrays()[name], array, err_msg=name)
        np.testing.assert_array_equal(model.predict(frame), whole.predict(frame))


def test_a_column_is_categorical_if_it_is_on_any_rank():
    frame, _ = frame_and_target()

    def learn(comm):
        return InputEncoder.learn(frame[rows_of(comm)], Reading(), "a model", comm=comm)

    whole, expected = InputEncoder.learn(frame, Reading(), "a model")
    found = on_ranks(4, learn)
    assert {str(encoder.to_state()) for encoder, _ in found} == {str(whole.to_state())}
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in found]), expected)


@pytest.mark.parametrize("kind", [*KINDS, "stream"])
def test_a_rank_whose_rows_have_no_weight(kind):
    frame, y = frame_and_target()
    weight = np.where(np.arange(N_ROWS) < N_ROWS // 2, 0.0, 1.0)
    frame["word"] = np.where(weight > 0, "a", "b")

    def made(frame):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return (lambda: table.to_reader(40)) if kind == "stream" else KINDS[kind](frame)

    def fit(comm):
        model, own = GradientBoostingRegressor(n_estimators=2, categorical_features=[1]), rows_of(comm)
        with model._using_comm(comm):
            return model.fit(made(frame[own].reset_index(drop=True)), y[own], weight[own])

    there = weight > 0
    whole = GradientBoostingRegressor(n_estimators=2, categorical_features=[1]).fit(made(frame[there]), y[there])
    for model in on_ranks(2, fit):
        assert model._encoder.to_state() == whole._encoder.to_state()
        np.testing.assert_array_equal(model.predict(frame), whole.predict(frame))
