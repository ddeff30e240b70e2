"""Categories that come in another type than in fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import BayesianNetwork, CategoricalNB, GradientBoostingClassifier
from fastens.table.columns.factorize import same_categories, without_same
from fastens.table.encoder import InputEncoder
from fastens.table.tables import table_from_frame

pa = pytest.importorskip("pyarrow")
NAN = np.nan
FRAMES = {
    "objects": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    "categories": lambda values: pd.DataFrame({"c": pd.Categorical(values)}),
    "polars": lambda values: pl.DataFrame({"c": values}, strict=False),
    "arrow": lambda values: pa.table({"c": values}),
}


def positions(make_frame, learned, asked):
    encoder = InputEncoder.fit(table_from_frame(make_frame(learned)), ["c"])
    frame = make_frame(asked)
    found = encoder.transform(encoder.matched(frame, "a model"))[:, 0].tolist()
    assert (
        encoder.codes(encoder.matched(frame, "a model"))[:, 0]
        == [0 if np.isnan(place) else place + 1 for place in found]
    ).all()
    return found


@pytest.mark.parametrize("make_frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("learned", "asked", "expected"),
    [
        ([1, 2, 3], ["3", "1", None], [2, 0, NAN]),
        ([1, 2, 3], ["3.0", "2"], [2, 1]),
        ([1.5, -2.0], ["1.5", "-2", "-2.0"], [1, 0, 0]),
        (["1", "2"], [2, 1], [1, 0]),
        (["1", "2.5"], [2.5, 1.0], [1, 0]),
        ([2**60, 2**60 + 1], [str(2**60 + 1), str(2**60)], [1, 0]),
        ([True, False], ["yes", "No", "TRUE", "f"], [1, 0, 1, 0]),
        (["no", "yes"], [True, False], [1, 0]),
        (["False", "True"], [True, False], [1, 0]),
        ([True, False], ["1", "0"], [1, 0]),
    ],
)
def test_the_same_value_in_another_type(make_frame, learned, asked, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(positions(make_frame, learned, asked), expected)


@pytest.mark.parametrize(
    ("learned", "asked", "expected", "message"),
    [
        (
            [1, 2],
            ["1", "abc"],
            [0, NAN],
            "holds text, such as 'abc' of type str; fit saw numbers, such as 1",
        ),
        (["yes", "Yes", "no"], [True, False], [NAN, 1], "holds booleans, such as True of type bool; fit saw text"),
        (
            ["01", "02"],
            [1, 2],
            [NAN, NAN],
            "holds numbers, such as 1 of type int; fit saw text, such as '01'",
        ),
        (["1", "1.0"], [1, 1], [NAN, NAN], "holds numbers, such as 1 of type int"),
        ([1, 2], ["inf", "nan"], [NAN, NAN], "holds text, such as 'inf'"),
    ],
)
def test_ambiguous_spellings_warn(learned, asked, expected, message):
    with pytest.warns(UserWarning, match=f"Column 'c' {message}"):
        found = positions(FRAMES["objects"], learned, asked)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("asked", [["a", "zzz"], [None, "b"], pd.Categorical(["a", "b"], categories=["a", "b", "q"])])
def test_new_values_of_the_same_type_are_not(asked):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        positions(lambda values: pd.DataFrame({"c": values}), ["a", "b"], asked)


def test_spellings_do_not_depend_on_other_values():
    categories = [1, 2, "b", "true", "yes"]
    alone = {value: same_categories([value], categories).get(value) for value in ("1", "2.0", "x", True, False)}
    assert alone == {"1": 1, "2.0": 2, "x": None, True: None, False: None}
    assert same_categories(alone, categories) == {"1": 1, "2.0": 2}
    assert without_same(["1", 2.0, "3", 4], [1, 2, "4"]) == ["3"]


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=5, categorical_features=["c"]),
        CategoricalNB(),
        BayesianNetwork(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_answer_the_same(model, rng):
    codes = rng.integers(1, 4, 200)
    y = codes == 2
    model.fit(pd.DataFrame({"c": codes}), y)
    expected = model.predict_proba(pd.DataFrame({"c": codes}))
    np.testing.assert_array_equal(model.predict_proba(pd.DataFrame({"c": codes.astype(str)})), expected)
    np.testing.assert_array_equal(model.predict_proba(pd.DataFrame({"c": codes.astype(float).astype(str)})), expected)
    assert expected[y].argmax(axis=1).all()


def test_categories_of_any_size():
    assert same_categories(["-1.0", str(2**70), "inf"], [2**70, np.inf, -1]) == {
        "-1.0": -1,
        str(2**70): 2**70,
        "inf": np.inf,
    }


def test_later_rows_teach_no_second_category():
    first, later = pd.DataFrame({"c": pd.Categorical([1, 2, 1, 2])}), pd.DataFrame({"c": ["1", "2", "2", "3"]})
    model = CategoricalNB()
    model.partial_fit(first, [0, 1, 0, 1], classes=[0, 1]).partial_fit(later, [0, 1, 1, 0])
    assert model._encoder.categories == [[1, 2, "3"]]
