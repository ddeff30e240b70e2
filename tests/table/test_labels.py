"""Targets and groups of rows: what is no label, in every place that takes labels."""

from __future__ import annotations

import enum

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

import fastens as fe

X, LABELS = np.arange(40.0).reshape(20, 2), np.array(["no", "yes"] * 10)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_strings_of_any_length_are_not_a_class(missing):
    y = np.array([missing, *LABELS[1:]], dtype=np.dtypes.StringDType(na_object=missing))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fe.DecisionTreeClassifier().fit(X, y)


@pytest.mark.slow
def test_strings_of_any_length_are_labels():
    y = LABELS.astype(np.dtypes.StringDType())
    assert fe.BinnedTable.from_source(X, y).y.tolist() == LABELS.tolist()
    assert len(fe.bias_variance_decomposition(fe.DecisionTreeClassifier(), X, y, n_rounds=2).main_prediction) == 5
    assert fe.tune(X, y, "classification", time_limit=1.0).best_estimator_.classes_.tolist() == ["no", "yes"]


class Town(str, enum.Enum):  # noqa: UP042
    BONN = "bonn"
    ROME = "rome"


def test_members_of_enumerations_that_are_texts_are_those_texts():
    members = [Town.BONN, Town.ROME] * 10
    texts = [town.value for town in members]
    model = fe.DecisionTreeClassifier().fit(X % 4, np.array(members, dtype=object))
    assert model.predict(X % 4).tolist() == texts
    assert model.score(X % 4, np.array(members, dtype=object)) == 1.0
    categories = fe.DecisionTreeRegressor().fit(np.array([members], dtype=object).T, X[:, 0])
    assert "Town" not in categories.export(format="c")
    assert set(map(type, categories._encoder.categories[0])) == {str}


def test_labels_stay_different():
    y = np.array([2**63 + 5, 2**63 + 6, 1, 1] * 5, dtype=object)
    model = fe.DecisionTreeClassifier().fit(np.arange(20)[:, None] % 4, y)
    assert model.classes_.tolist() == sorted(set(y))
    assert model.score(np.arange(20)[:, None] % 4, y) == 1.0
    with pytest.raises(
        ValueError, match=r"y must hold labels that a single numeric type represents exactly.*got 18446744073709551615"
    ):
        fe.DecisionTreeClassifier().fit(X, np.array([2**64 - 1, -1] * 10, dtype=object))
    with pytest.raises(
        ValueError, match=r"y must hold labels that do not end in a NUL character, because NumPy.*got 'a\\x00'"
    ):
        fe.DecisionTreeClassifier().fit(X, np.array(["a", "a\0"] * 10, dtype=object))


@pytest.mark.parametrize(
    "judge",
    [
        lambda y: fe.estimate_errors(fe.BayesOptimalClassifier([("bayes", fe.GaussianNB())]).fit(X, LABELS), X, y),
        lambda y: fe.bias_variance_decomposition(fe.DecisionTreeClassifier(), X, y, n_rounds=2),
        lambda y: fe.plot_decision_boundary(fe.DecisionTreeClassifier().fit(X, LABELS), X, y),
        lambda y: fe.BinnedTable.from_source(X, y),
    ],
)
def test_masked_labels_are_refused(judge):
    judge(np.ma.masked_array(LABELS))
    with pytest.raises(ValueError, match="y must not have masked values; row"):
        judge(np.ma.masked_array(LABELS, np.arange(20) == 3))


def test_numbers_to_judge_by_are_real():
    with pytest.raises(ValueError, match="y must hold numbers; it holds complex128"):
        fe.bias_variance_decomposition(fe.DecisionTreeRegressor(), X, X[:, 0] + 1j, n_rounds=2)


@pytest.mark.parametrize("model", [fe.DecisionTreeClassifier(), fe.DecisionTreeRegressor(), fe.GaussianNB()])
def test_rows_are_scored_by_targets(model):
    with pytest.raises(ValueError, match=r"y must hold the targets of the rows to score; got None\."):
        model.fit(X, np.arange(20) % 2).score(X, None)


@pytest.mark.parametrize(
    "learn",
    [
        lambda **given: fe.GradientBoostingRegressor(
            n_estimators=1, early_stopping=fe.EarlyStopping(validation=GroupKFold(2))
        ).fit(X, X[:, 0], **given),
        lambda **given: fe.StackingRegressor([("tree", fe.DecisionTreeRegressor())], cv=GroupKFold(2)).fit(
            X, X[:, 0], **given
        ),
    ],
)
def test_groups_are_strings_of_any_length_and_none_is_masked(learn):
    learn(groups=LABELS.astype(np.dtypes.StringDType()))
    with pytest.raises(ValueError, match="groups must not have masked values; row"):
        learn(groups=np.ma.masked_array(LABELS, np.arange(20) == 3))


@pytest.mark.parametrize("model", [fe.DecisionTreeRegressor(), fe.GradientBoostingRegressor(n_estimators=1)])
def test_masked_targets_are_not_scored(model):
    y = np.ma.masked_equal(np.arange(20.0), 3)
    model.fit(X, y.data)
    methods = [model.score, lambda *given: list(model.staged_score(*given))]
    for score in methods[: 1 + hasattr(model, "staged_score")]:
        with pytest.raises(ValueError, match="y must not have masked values; row"):
            score(X, y)


@pytest.mark.parametrize("model", [fe.DecisionTreeClassifier(), fe.DecisionTreeRegressor()])
def test_a_number_is_not_a_target_of_rows(model):
    model.fit(X, np.arange(20) % 2)
    for weight in (None, np.ones(20)):
        with pytest.raises(ValueError, match="y must hold one target for each row to score"):
            model.score(X, 1.0, sample_weight=weight)


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_labels_of_64_bits_without_a_sign(form):
    y = [[0, 2**63, 2**63 + 1][k % 3] for k in range(20)]
    given = np.array(y, dtype=object) if form is np.array else form(y)
    model = fe.DecisionTreeClassifier().fit(X, given)
    assert model.classes_.tolist() == [0, 2**63, 2**63 + 1]
    assert model.score(X, given) == (model.predict(X) == np.array(y, dtype=object)).mean()
