"""What counts as a category of a column, whatever the table is and the weights are."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from fastens import MixedNB

CODES = np.array([[0, 0], [4, 1], [0, 1], [4, 0], [0, 1], [9, 7]])
Y = np.array([0, 1, 1, 1, 0, 1])


def test_whole_numbers_of_mixed_columns_are_the_values_found():
    kinds = ["categorical", "gaussian"]
    model = MixedNB(kinds=kinds).fit(CODES, Y)
    for same in (CODES.astype(float), CODES.tolist(), CODES.astype(np.int8), pd.DataFrame(CODES)):
        assert_array_equal(MixedNB(kinds=kinds).fit(same, Y).predict_proba(same), model.predict_proba(CODES))
    assert model._likelihoods[1].sizes.tolist() == [3]
