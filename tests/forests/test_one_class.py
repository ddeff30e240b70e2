"""Trees, forests and bags of a target of one class, which is all they can predict."""

from __future__ import annotations

import numpy as np
import pytest

import fastens

X = np.random.default_rng(0).normal(size=(60, 3))
TREES = {
    "a tree": fastens.DecisionTreeClassifier(),
    "random splits": fastens.DecisionTreeClassifier(criterion="entropy", splitter="random"),
    "a forest": fastens.RandomForestClassifier(20, oob_score=True, class_weight="balanced", random_state=0),
    "a forest of averages": fastens.RandomForestClassifier(3, averaging="posterior"),
    "a forest that votes": fastens.ExtraTreesClassifier(3, voting="hard"),
}
BAGS = {
    "bags of trees": fastens.BaggingClassifier(n_estimators=3),
    "bags of others": fastens.BaggingClassifier(fastens.GradientBoostingClassifier(), n_estimators=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TREES, *BAGS])
def test_one_class(name, tmp_path):
    model = (TREES | BAGS)[name].fit(X, ["a"] * 60)
    assert set(model.predict(X)) == {"a"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((60, 1)))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.zeros((60, 1)))
    assert model.score(X, ["a"] * 60) == 1
    explained = model.explain(X, X[:5])
    assert not explained.values.any()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict_proba(X), np.ones((60, 1)))
    if name == "a forest":
        assert model.oob_score_ == 1
    if name in TREES:
        assert model.n_classes_ == 1
        with pytest.raises(ValueError, match="cannot represent a target with a single class"):
            model.export(format="sql")


@pytest.mark.parametrize("name", TREES)
def test_one_of_several_targets(name):
    y = np.column_stack([["a"] * 60, np.random.default_rng(0).choice(["u", "v", "w"], 60)])
    model = TREES[name].fit(X, y)
    assert set(model.predict(X)[:, 0]) == {"a"}
    first, second = model.predict_proba(X)
    np.testing.assert_array_equal(first, np.ones((60, 1)))
    alone = TREES[name].fit(X, y[:, 1]).predict_proba(X)
    assert second.shape == alone.shape
