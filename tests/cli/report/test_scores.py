"""Scores, against scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics

from fastens.cli.report.report import Truth, constant_prediction, score, score_constant


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes(rng, weighted):
    y = rng.choice(["a", "b"], 200)
    p = rng.uniform(0.01, 0.99, 200)
    weight = rng.uniform(0, 2, 200) if weighted else None
    scores = score(np.column_stack([1 - p, p]), Truth(y, weight, np.array(["a", "b"]), None))
    assert scores == pytest.approx(
        {
            "log loss": metrics.log_loss(y, p, sample_weight=weight),
            "AUC": metrics.roc_auc_score(y, p, sample_weight=weight),
            "accuracy": metrics.accuracy_score(y, np.where(p > 0.5, "b", "a"), sample_weight=weight),
        }
    )


def test_three_classes(rng):
    y = rng.choice(3, 300)
    p = rng.dirichlet(np.ones(3), 300)
    scores = score(p, Truth(y, None, np.arange(3), None))
    assert scores["log loss"] == pytest.approx(metrics.log_loss(y, p))
    assert scores["AUC (one-vs-rest)"] == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))


def test_a_class_that_is_absent_leaves_no_area(rng):
    scores = score(np.full((5, 2), 0.5), Truth(np.zeros(5), None, np.arange(2), None))
    assert np.isnan(scores["AUC"])


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma"])
def test_numbers(rng, loss):
    y, predicted, weight = rng.uniform(1, 5, (3, 100))
    scores = score(predicted, Truth(y, weight, None, loss))
    assert scores["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y, predicted, sample_weight=weight))
    assert scores["MAE"] == pytest.approx(metrics.mean_absolute_error(y, predicted, sample_weight=weight))
    assert scores["R²"] == pytest.approx(metrics.r2_score(y, predicted, sample_weight=weight))
    assert (f"{loss} deviance" in scores) == (loss != "squared_error")


def test_both_names_of_the_loss_of_quantiles_are_judged_alike():
    names = [Truth(np.zeros(2), None, None, loss).loss_name for loss in ("quantile", "pinball", "expectile")]
    assert names == ["MAE", "MAE", "RMSE"]


def test_the_constant_prediction_knows_the_training_rows_only(rng):
    y = rng.choice(["a", "b"], 100, p=[0.8, 0.2])
    constant = constant_prediction(y, None, np.array(["a", "b"]))
    assert constant == pytest.approx([np.mean(y == "a"), np.mean(y == "b")])
    scores = score_constant(constant, Truth(y, None, np.array(["a", "b"]), None))
    assert scores["AUC"] == 0.5
    assert scores["accuracy"] == pytest.approx(max(constant))
    mean = constant_prediction(np.array([1.0, 3.0]), np.array([3.0, 1.0]), None)
    assert score_constant(mean, Truth(np.array([1.5, 1.5]), None, None, None))["RMSE"] == 0
