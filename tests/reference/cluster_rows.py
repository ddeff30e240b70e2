"""A table with numbers, words, missing values, weights and targets, for fits on clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd


def make_frame(n_rows):
    """The columns size, number, word, weight and target; the last words are not in the first partitions."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=n_rows), "number": rng.integers(0, 9, n_rows).astype(float)})
    frame["word"] = rng.choice(["a", "b", "c"], n_rows)
    frame.loc[: n_rows // 3, "word"] = "d"
    frame.loc[::17, "number"] = np.nan
    target = frame["size"] + (frame["word"] == "b") + rng.normal(size=n_rows) / 2
    return frame.assign(weight=rng.random(n_rows), target=target)


def content(model, folder):
    """The bytes of the file of a model."""
    model.save(folder / "model.fastens")
    return (folder / "model.fastens").read_bytes()
