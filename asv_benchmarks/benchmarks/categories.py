"""Fitting with categories, by their number and encoding, and with constraints."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fastens import GradientBoostingRegressor
from fastens.params import options


def table(n_categories: int, n_rows: int = 50_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Two categorical columns and four numbers."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_categories, (n_rows, 2))
    numbers = rng.normal(size=(n_rows, 4))
    frame = pd.DataFrame(numbers, columns=list("abcd"))
    for place, name in enumerate(("first", "second")):
        frame[name] = pd.Categorical(codes[:, place])
    y = rng.normal(size=n_categories)[codes].sum(axis=1) + numbers[:, 0] * numbers[:, 1] + rng.normal(size=n_rows)
    return frame, y


class Categories:
    """Time to fit by number of categories."""

    params = ([10, 200, 5000], ["partition", "target", "ordered"])
    param_names = ("n_categories", "encoding")

    def setup(self, n_categories: int, encoding: str) -> None:
        self.X, self.y = table(n_categories)

    def time_fit(self, n_categories: int, encoding: str) -> None:
        categories = options.Categories(encoding=encoding)
        GradientBoostingRegressor(categories=categories, random_state=0, n_jobs=1).fit(self.X, self.y)


class Constraints:
    """Time to fit with a constraint, and without any."""

    params = (["none", "monotonic_cst", "interaction_cst", "growth"],)
    param_names = ("constraint",)

    def setup(self, constraint: str) -> None:
        values = {
            "monotonic_cst": [1, 0, 0, 0],
            "interaction_cst": "pairwise",
            "growth": options.Growth(path_smooth=10.0),
        }
        self.options = {constraint: values[constraint]} if constraint in values else {}
        self.X, self.y = np.ascontiguousarray(table(2)[0].iloc[:, :4]), table(2)[1]

    def time_fit(self, constraint: str) -> None:
        GradientBoostingRegressor(n_jobs=1, **self.options).fit(self.X, self.y)
