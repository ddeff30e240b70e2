"""Boosting on several ranks gives the model of one rank with the whole table, to the bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.params.options import Dart, Growth, LinearLeaves
from fastens.table.training_data import learn_labels
from reference.rank_fits import (
    BINARY,
    CLASSES,
    COMMON,
    N_ROWS,
    POSITIVE,
    QUERIES,
    WEIGHTS,
    WEIGHTS_AND_SIZES,
    T,
    X,
    assert_same_models,
    assert_saved_models_are_the_same,
    fit_on_ranks,
    rows_of,
    state,
)  # fmt: skip
from reference.threads_comm import on_ranks

REGRESSION = {
    "squared_error": T, "absolute_error": T, "huber": T, "log_cosh": T, "poisson": POSITIVE, "gamma": POSITIVE,
    "tweedie": POSITIVE, "cross_entropy": POSITIVE / (1 + POSITIVE), "normal": T, "student_t": T, "weibull": POSITIVE,
    "beta": POSITIVE / (1 + POSITIVE), "negative_binomial": np.floor(POSITIVE),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "whole", "fractional"])
@pytest.mark.parametrize("loss", [*REGRESSION, "quantile", "expectile", "several quantiles"])
def test_losses_of_numbers(loss, weights):
    options = COMMON | {"loss": loss, "categorical_features": [4]}
    if loss in ("quantile", "expectile"):
        options["quantile"] = 0.8
    if loss == "several quantiles":
        options |= {"loss": "quantile", "quantile": [0.2, 0.9]}
    y = REGRESSION.get(loss, T)
    assert_same_models(4, lambda: GradientBoostingRegressor(**options), y, WEIGHTS.get(weights))


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_classes_with_default_parameters(weights, size):
    for y in (BINARY, CLASSES):
        assert_same_models(size, lambda: GradientBoostingClassifier(**COMMON), y, WEIGHTS.get(weights))


@pytest.mark.slow
def test_exponential_loss_and_least_squares():
    options = COMMON | {"categorical_features": [4, 5]}
    assert_same_models(3, lambda: GradientBoostingClassifier("exponential", **options), BINARY)
    least_squares = COMMON | {"growth": Growth(split_criterion="squared_error")}
    assert_same_models(3, lambda: GradientBoostingClassifier(**least_squares), CLASSES, WEIGHTS["whole"])
    assert_same_models(4, lambda: GradientBoostingRegressor("poisson", **least_squares), POSITIVE)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_survival(loss, weights, size):
    time, lost = np.exp(T / 2), np.random.default_rng(3).exponential(3.0, N_ROWS)
    y = np.column_stack([np.minimum(time, lost), np.where(time <= lost, time, np.inf)])
    if loss == "aft":
        y[::9, 0], y[::9, 1] = 0.5, 2.0
    for options in (COMMON, COMMON | {"subsample": 0.5}):
        make = lambda options=options: GradientBoostingSurvival(loss, **options)  # noqa: E731
        assert_same_models(size, make, y, WEIGHTS.get(weights))
    expected = GradientBoostingSurvival(loss, **COMMON).fit(X, y)
    for model in fit_on_ranks(size, lambda: GradientBoostingSurvival(loss, **COMMON), y):
        at = model.predict_survival_function(X[:20], times=[0.5, 1.0, 2.0])
        np.testing.assert_array_equal(at, expected.predict_survival_function(X[:20], times=[0.5, 1.0, 2.0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "size", "loss", "options"),
    [
        (None, 5, "lambdarank", {}),
        ("whole", 3, "lambdarank", {"sampling": "queries", "subsample": 0.6}),
        ("whole", 2, "pairwise", {"sampling": "queries", "subsample": 0.5, "oob_score": True}),
        (None, 3, "map", {}),
        (None, 5, "xendcg", {"sampling": "queries", "subsample": 0.3}),
    ],
)
def test_ranking_of_whole_queries(weights, size, loss, options):
    qid = QUERIES * 1000 + np.arange(N_ROWS) // 40
    relevance = np.digitize(T, [-0.5, 0.5, 1.5])
    make = lambda: GradientBoostingRanker(loss, **COMMON, **options)  # noqa: E731
    weight, position = None if weights is None else WEIGHTS["whole"], np.arange(N_ROWS) % 40
    model = make().fit(X, relevance, weight, qid=qid, position=position)
    expected = state(model) | {"bias": model.position_bias_}

    def work(comm):
        model, own = make(), rows_of(comm)
        with model._using_comm(comm):
            weight_here = None if weight is None else weight[own]
            model.fit(X[own], relevance[own], weight_here, qid=qid[own], position=position[own])
        return model

    for model in on_ranks(size, work):
        for name, found in (state(model) | {"bias": model.position_bias_}).items():
            np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_a_query_on_two_ranks_is_an_error_on_both():
    def work(comm):
        model, own = GradientBoostingRanker(**COMMON), rows_of(comm)
        with (
            model._using_comm(comm),
            pytest.raises(ValueError, match="qid must keep all rows of a query on one rank; query"),
        ):
            model.fit(X[own], np.digitize(T[own], [0.5]), qid=np.arange(N_ROWS)[own] // 40)
        return True

    assert on_ranks(2, work) == [True, True]


class LogCosh:
    """A user's loss, whose start is of all rows."""

    def start(self, y, sample_weight):
        return float(np.average(np.sort(y)[1:-1]) if sample_weight is None else np.average(y, weights=sample_weight))

    def derivatives(self, y, raw):
        return np.tanh(raw - y), 1 - np.tanh(raw - y) ** 2 + 1e-3

    def loss(self, y, raw):
        return np.log(np.cosh(np.clip(raw - y, -50, 50)))


class OneAgainstOthers:
    def derivatives(self, y, raw):
        share = 1 / (1 + np.exp(-raw))
        return share - (y[:, None] == np.arange(raw.shape[1])), share * (1 - share)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_losses_of_users(weights, size):
    weight = WEIGHTS.get(weights)
    options = COMMON | {"early_stopping": True, "n_iter_no_change": 2}
    assert_same_models(size, lambda: GradientBoostingRegressor(LogCosh(), **options), T, weight)
    squares = lambda y, raw: (raw - y, np.ones_like(y))  # noqa: E731
    assert_same_models(size, lambda: GradientBoostingRegressor(squares, boosting="dart", **COMMON), T, weight)
    assert_same_models(size, lambda: GradientBoostingClassifier(OneAgainstOthers(), **COMMON), CLASSES, weight)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
@pytest.mark.parametrize("class_weight", ["balanced", {0: 2.0, 2: 0.5}])
def test_class_weights(class_weight, weights, size):
    make = lambda: GradientBoostingClassifier(class_weight=class_weight, **COMMON)  # noqa: E731
    assert_same_models(size, make, CLASSES, WEIGHTS.get(weights))


def test_class_weights_of_several_targets():
    several = np.column_stack([np.minimum(CLASSES, 2), BINARY == "yes"])
    make = lambda: GradientBoostingClassifier(class_weight="balanced", **COMMON)  # noqa: E731
    assert_same_models(3, make, several, WEIGHTS["fractional"])


def test_trees_by_level_with_constraints():
    options = COMMON | {"max_leaf_nodes": None, "max_depth": 5, "monotonic_cst": [1, 0, 0, 0, 0, 0], "max_bins": 400}
    assert_same_models(5, lambda: GradientBoostingRegressor(interaction_cst="pairwise", **options), T)
    assert_same_models(
        2, lambda: GradientBoostingRegressor(max_features=0.5, growth=Growth(min_weight_leaf=9), **options), T
    )


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
@pytest.mark.parametrize("sampling", [{"subsample": 0.3}, {"sampling": "goss"}, {"sampling": "mvs", "subsample": 0.4}])
def test_rows_are_drawn_from_the_whole_table(sampling, weights, size):
    options = COMMON | sampling
    assert_same_models(size, lambda: GradientBoostingRegressor(**options), T, WEIGHTS.get(weights))
    assert_same_models(size, lambda: GradientBoostingClassifier(**options), BINARY, WEIGHTS.get(weights))


def test_few_rows_are_drawn_at_least_one():
    few = COMMON | {"n_estimators": 8, "subsample": 0.01}
    assert_same_models(4, lambda: GradientBoostingRegressor("absolute_error", **few), T)
    tiny = COMMON | {"subsample": 1e-9, "min_samples_leaf": 1}
    models = fit_on_ranks(3, lambda: GradientBoostingRegressor(**tiny), T)
    expected = state(GradientBoostingRegressor(**tiny).fit(X, T))
    for model in models:
        np.testing.assert_array_equal(state(model)["value"], expected["value"])


@pytest.mark.slow
def test_early_stopping_is_one_decision():
    options = COMMON | {"n_estimators": 60, "learning_rate": 0.5, "n_iter_no_change": 2, "early_stopping": True}
    assert_same_models(3, lambda: GradientBoostingClassifier(**options), BINARY)
    assert_same_models(3, lambda: GradientBoostingRegressor(**options), T, WEIGHTS["fractional"])
    for size in (2, 5):
        validated = {"X_val": X[::-1], "y_val": T[::-1]}
        assert_same_models(size, lambda: GradientBoostingRegressor(**options), T, **validated)


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_several_targets_in_every_leaf(weights, size):
    options = COMMON | {"categorical_features": [4]}
    y = np.column_stack([T, POSITIVE, -T])
    assert_same_models(size, lambda: GradientBoostingRegressor(subsample=0.5, **options), y, WEIGHTS.get(weights))
    assert_same_models(size, lambda: GradientBoostingRegressor("absolute_error", **options), y, WEIGHTS.get(weights))


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "size"), WEIGHTS_AND_SIZES)
def test_linear_models_in_leaves(weights, size):
    options = COMMON | {"linear_leaves": True, "categorical_features": [4]}
    weight = WEIGHTS.get(weights)
    assert_same_models(size, lambda: GradientBoostingRegressor(**options), T, weight)
    assert_same_models(size, lambda: GradientBoostingClassifier(subsample=0.5, **options), CLASSES, weight)


def test_linear_models_of_columns_from_zero(tmp_path):
    make = partial(GradientBoostingRegressor, linear_leaves=True, n_estimators=1, n_jobs=1)
    assert_saved_models_are_the_same(2, make, T, None, tmp_path / "model")


@pytest.mark.slow
def test_linear_models_within_limits():
    signs = [1, -1, 0, 0, 0, 0]
    options = COMMON | {"linear_leaves": LinearLeaves(l2=2.0), "monotonic_cst": signs, "max_depth": 4}
    assert_same_models(5, lambda: GradientBoostingRegressor("poisson", **options), POSITIVE)
    stopping = options | {"early_stopping": True, "boosting": Dart(skip_drop=0.0), "n_estimators": 20}
    assert_same_models(3, lambda: GradientBoostingClassifier(**stopping), BINARY, WEIGHTS["fractional"])
    steps = Growth(max_delta_step=0.3)
    assert_same_models(2, lambda: GradientBoostingRegressor(linear_leaves=True, growth=steps, **COMMON), T)


def test_trees_are_left_out_and_sums_stay_on_their_grid():
    assert_same_models(3, lambda: GradientBoostingClassifier(boosting=Dart(skip_drop=0.0), **COMMON), BINARY)


def test_labels_of_ranks_are_of_one_type():
    labels = [np.array([], dtype=object), np.array([2, 0, 2]), np.array([1, 2])]
    for classes, _ in on_ranks(3, lambda comm: learn_labels(labels[comm.rank], comm)):
        assert (classes.tolist(), classes.dtype.kind) == ([0, 1, 2], "i")
    with pytest.raises(ValueError, match="y holds int, str; labels must be all strings or all numbers"):
        on_ranks(2, lambda comm: learn_labels([np.array([1, 2]), np.array(["1", "2"])][comm.rank], comm))


def test_one_rank_stops_all():
    def work(comm):
        model = GradientBoostingRegressor(callbacks=[lambda env: comm.rank == 1 and env.iteration == 2], **COMMON)
        own = rows_of(comm)
        with model._using_comm(comm):
            return model.fit(X[own], T[own]).n_estimators_

    assert on_ranks(3, work) == [3, 3, 3]


@pytest.mark.parametrize("size", [2, 5])
def test_ranks_may_have_no_rows_or_no_weight(size):
    weight = np.ones(N_ROWS)
    weight[:5] = weight[1000:1300] = weight[-1] = 0.0
    make = lambda: GradientBoostingRegressor(categorical_features=[4], early_stopping=True, **COMMON)  # noqa: E731
    assert_same_models(size, make, T, weight)
    for nothing in (np.zeros(N_ROWS), np.zeros(0)):
        with pytest.raises(ValueError, match="all of them are zero" if len(nothing) else "0 sample"):
            fit_on_ranks(size, make, T[: len(nothing)], nothing)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_several_threads_on_each_rank(seed, size):
    """Rows of leaves that were partitioned ahead of a split that did not follow are all counted."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(N_ROWS, 5))
    table[rng.random(table.shape) < 0.05] = np.nan
    y = 2 * np.nan_to_num(table[:, 0]) + rng.normal(size=N_ROWS)
    assert_same_models(
        size, lambda: GradientBoostingRegressor(n_estimators=6, random_state=0, n_jobs=2), y, table=table
    )
