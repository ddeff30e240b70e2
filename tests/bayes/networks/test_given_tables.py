"""Networks of given tables, some of whose variables are hidden."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fastens
from fastens import BayesianNetwork

STATES = {"z": [0, 1], "a": ["n", "y"], "b": ["n", "y"]}
PARENTS = {"a": ["z"], "b": ["z"]}
TABLES = {"z": [0.4, 0.6], "a": [[0.9, 0.1], [0.2, 0.8]], "b": [[0.7, 0.3], [0.1, 0.9]]}
X = pd.DataFrame({"a": ["n", "y", "y"], "b": ["y", "n", "y"]})


@pytest.mark.parametrize("target", [None, "b"])
def test_hidden_variables_are_in_no_column(tmp_path, target):
    model = BayesianNetwork.from_tables(STATES, PARENTS, TABLES, target, hidden={"z": 2}, max_iter=2, tol=1)
    columns = X.drop(columns=target) if target else X
    assert list(model.feature_names_in_) == list(columns.columns)
    expected = [list(model.query("z", row).values()) for row in columns.to_dict("records")]
    np.testing.assert_allclose(model.posterior("z", columns), expected)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        fastens.load(tmp_path / "model").posterior("z", columns), model.posterior("z", columns)
    )
    again = model.fit(columns, target and X[target])
    assert again.node_names_ == [*columns.columns, "z", *([target] if target else [])]


@pytest.mark.parametrize("hidden", [{"z": 3}, {"a": 2}, {"q": 2}, {"z": 2, "b": 2}])
def test_hidden_variables_must_match_the_tables(hidden):
    with pytest.raises(ValueError, match="hidden must map variables of the network other than the target to"):
        BayesianNetwork.from_tables(STATES, PARENTS, TABLES, "b", hidden=hidden)
