"""Several quantiles or expectiles of several targets: predictions of shape (n_samples, n_targets, n_quantiles)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.multioutput import MultiOutputRegressor

import fastens
from fastens import GradientBoostingRegressor
from fastens.params.options import Dart, Growth

LEVELS = [0.1, 0.5, 0.9]
SMALL = {"n_estimators": 15, "max_leaf_nodes": 8, "min_samples_leaf": 5, "random_state": 0}
KINDS = {
    "plain": {},
    "subsample": {"subsample": 0.5},
    "goss": {"sampling": "goss"},
    "dart": {"boosting": Dart(rate_drop=0.3, skip_drop=0.2)},
}
SIGNS = [1, -1, 0, 0]


def model_of(levels=LEVELS, **parameters):
    return GradientBoostingRegressor("quantile", quantile=levels, **{**SMALL, **parameters})


def made(rng, n_rows=400):
    """Two targets whose spread depends on different columns."""
    X = rng.normal(size=(n_rows, 4))
    noise = rng.normal(size=(n_rows, 2)) * np.exp(X[:, 1:3] / 2)
    return X, np.column_stack([X[:, 0], X[:, 2] - X[:, 0]]) + noise


@pytest.fixture
def data(rng):
    return made(rng)


def test_they_cover(rng):
    (X, Y), (X_new, Y_new) = made(rng, 3000), made(rng, 3000)
    model = model_of(n_estimators=60, min_samples_leaf=20).fit(X, Y)
    found = model.predict(X_new)
    assert found.shape == (3000, 2, 3)
    share = (Y_new[:, :, None] <= found).mean(axis=0)
    np.testing.assert_allclose(share, [LEVELS] * 2, atol=0.05)
    assert model.apply(X_new).shape == (3000, 60)
    assert model.n_outputs_ == 2
    # Rows of large noise have wide intervals, for each target in a column of its own.
    width = found[:, :, 2] - found[:, :, 0]
    assert [np.corrcoef(np.exp(X_new[:, 1 + target] / 2), width[:, target])[0, 1] > 0.8 for target in range(2)]
    apart = MultiOutputRegressor(model_of(0.9, n_estimators=60, min_samples_leaf=20)).fit(X, Y).predict(X_new)
    losses = [d2_pinball_score(Y_new, each, alpha=0.9) for each in (found[:, :, 2], apart)]
    assert losses[0] > losses[1] - 0.02


def test_equal_targets_and_single_levels_are_what_they_are_alone(data):
    X, Y = data
    twice = model_of().fit(X, Y[:, [0, 0]]).predict(X)
    np.testing.assert_array_equal(twice[:, 0], twice[:, 1])
    one_level = model_of([0.7]).fit(X, Y).predict(X)
    np.testing.assert_array_equal(one_level[:, :, 0], model_of(0.7).fit(X, Y).predict(X))


def along(model, X, column):
    """Predictions as one column rises and the others stay, with that on the second axis."""
    lines = np.repeat(X[:25, None], 20, axis=1)
    lines[:, :, column] = np.linspace(-3, 3, 20)
    found = model.predict(lines.reshape(-1, X.shape[1]))
    return found.reshape(25, 20, *found.shape[1:])


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**16),
    n_targets=st.integers(2, 4),
    levels=st.lists(st.floats(0.02, 0.98), min_size=2, max_size=4, unique=True).map(sorted),
    kind=st.sampled_from(sorted(KINDS)),
    learning_rate=st.sampled_from([0.1, 0.5, 1.0]),
)
@settings(max_examples=25, deadline=None)
def test_they_never_cross_and_stay_monotone(seed, n_targets, levels, kind, learning_rate):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 4))
    Y = X @ rng.normal(size=(4, n_targets)) + rng.normal(size=(150, n_targets)) * np.exp(X[:, :1])
    model = model_of(levels, learning_rate=learning_rate, monotonic_cst=SIGNS, **KINDS[kind]).fit(X, Y)
    for column in np.flatnonzero(SIGNS):
        found = along(model, X, column)
        assert (np.diff(found, axis=3) >= 0).all()
        assert (SIGNS[column] * np.diff(found, axis=1)).min() >= -1e-9


def test_sorting_and_the_constraint_have_something_to_do(rng):
    X, Y = made(rng)
    free = model_of(learning_rate=1.0, n_estimators=40).fit(X, Y)
    raw = free._ensemble.predict_raw(X).reshape(len(X), 2, 3)
    assert (np.diff(raw, axis=2) < 0).any(axis=(0, 2)).all(), "no target's raw quantiles cross"
    assert (np.diff(free.predict(X), axis=2) >= 0).all()
    np.testing.assert_array_equal(np.sort(raw, axis=2), free.predict(X))
    assert (np.diff(along(free, X, 0), axis=1).min(axis=(0, 1, 3)) < -1e-3).all()


@pytest.mark.parametrize("kind", KINDS)
def test_more_rounds_later_are_all_at_once(kind, data, tmp_path):
    X, Y = data
    at_once = model_of(**KINDS[kind]).fit(X, Y)
    model = model_of(warm_start=True, **{**KINDS[kind], "n_estimators": 7}).fit(X, Y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), model.predict(X))
    resumed = model_of(**KINDS[kind]).fit(X, Y, resume=tmp_path / "model")
    model = pickle.loads(pickle.dumps(model)).set_params(n_estimators=15).fit(X, Y)
    threads = model_of(n_jobs=3, **KINDS[kind]).fit(X, Y)
    for other in (model, resumed, threads):
        np.testing.assert_array_equal(other.predict(X), at_once.predict(X))
        np.testing.assert_array_equal(
            other.evals_result_["training"]["loss"], at_once.evals_result_["training"]["loss"]
        )


def test_weights_are_repetition(data, rng):
    (X, Y), times = data, rng.integers(0, 3, 400)
    model = model_of(min_samples_leaf=1, growth=Growth(min_weight_leaf=5))
    weighted = clone(model).fit(X, Y, times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


def test_the_score_is_the_mean_d2_of_all(data, rng):
    (X, Y), weight = data, rng.random(400)
    model = model_of().fit(X, Y)
    found = model.predict(X)
    of_each = [
        d2_pinball_score(Y[:, target], found[:, target, place], alpha=level, sample_weight=weight)
        for target in range(2)
        for place, level in enumerate(LEVELS)
    ]
    assert model.score(X, Y, weight) == pytest.approx(np.mean(of_each))
    stages = list(model.staged_score(X, Y, weight))
    assert stages[-1] == model.score(X, Y, weight) > stages[0]
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], found)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_importance_by_permutation_is_the_loss_of_score(n_targets, data):
    (X, Y), generator = data, np.random.RandomState(3)
    y = Y[:, 0] if n_targets == 1 else Y
    model = model_of().fit(X, y)
    found = model.permutation_importance(X, y, n_repeats=1, random_state=generator).importances[:, 0]
    shuffle = np.random.RandomState(3).permutation(400)
    for column in range(4):
        changed = X.copy()
        changed[:, column] = X[shuffle, column]
        assert found[column] == pytest.approx(model.score(X, y) - model.score(changed, y), abs=1e-9)


def test_validation_stops_on_the_mean_pinball_loss(data):
    X, Y = data
    model = model_of(n_estimators=300, learning_rate=0.5).fit(X[:250], Y[:250], X_val=X[250:], y_val=Y[250:])
    n = model.n_estimators_
    assert n < len(model.evals_result_["validation"]["loss"]) < 300
    apart = Y[250:, :, None] - np.array(list(model.staged_predict(X[250:])))
    loss = np.maximum(np.array(LEVELS) * apart, (np.array(LEVELS) - 1) * apart).mean(axis=(1, 2, 3))
    # The loss is that of raw predictions; sorting them can only lower it.
    assert (loss <= model.evals_result_["validation"]["loss"][:n] + 1e-12).all()
    np.testing.assert_allclose(loss, model.evals_result_["validation"]["loss"][:n], rtol=0.02)


def test_out_of_bag_intervals_and_offsets(data):
    X, Y = data
    model = model_of(n_estimators=30, min_samples_leaf=30, subsample=0.5, oob_score=True).fit(X, Y)
    assert model.oob_prediction_.shape == (400, 2, 3)
    share = (Y[:, :, None] <= model.oob_prediction_).mean(axis=0)
    np.testing.assert_allclose(share, [LEVELS] * 2, atol=0.08)
    model = model_of().fit(X[:200], Y[:200]).conformalize(X[200:], Y[200:])
    intervals, found = model.predict_interval(X, 0.8), model.predict(X)
    assert intervals.shape == (400, 2, 2)
    moved = intervals - found[:, :, [0, 2]]  # conformalised quantile regression moves both ends by the same
    np.testing.assert_allclose(moved[:, :, 0], -moved[:, :, 1], atol=1e-9)
    assert (np.ptp(moved, axis=0) < 1e-9).all()
    start = model.predict(X)
    shaped, flat = (model_of().fit(X, Y, init_score=each) for each in (start, start.reshape(400, 6)))
    answers = [m.predict(X, init_score=each) for m, each in ((shaped, start), (flat, start.reshape(400, 6)))]
    np.testing.assert_array_equal(*answers)
    with pytest.raises(ValueError, match=r"init_score must have the shape \(400, 6\); got \(400, 2, 2\)"):
        model_of().fit(X, Y, init_score=start[:, :, :2])


def test_explanations_and_new_leaf_values(data):
    X, Y = data
    model = model_of().fit(X, Y)
    parts = model.predict_contributions(X)
    assert parts.shape == (400, 6, 5)
    np.testing.assert_allclose(np.sort(parts.sum(axis=2).reshape(400, 2, 3)), model.predict(X), atol=1e-9)
    np.testing.assert_allclose(
        model.refit_leaves(X, Y, decay_rate=0.0).predict(X), model.predict(X), rtol=1e-5, atol=1e-6
    )
    assert model.refit_leaves(X, Y + 2, decay_rate=0.5).predict(X).mean() > model.predict(X).mean() + 0.5


def test_the_number_of_targets_stays(data):
    X, Y = data
    Y = np.column_stack([Y, Y[:, 0]])
    model = model_of([0.2, 0.8], n_estimators=5, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="targets, as in the fit that this one continues"):
        model.set_params(quantile=[0.2, 0.5, 0.8], n_estimators=6).fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="quantile must list ascending levels for loss='quantile'"):
        model_of([0.8, 0.2]).fit(X, Y)


# Levels near 0 or 1 --------------------------------------------------


def least_leaf(model, n_outputs):
    """The fewest rows of a leaf, for each raw prediction that has trees of its own."""
    trees = [model._ensemble.tree(tree) for tree in range(model._ensemble.n_trees)]
    leaves = [tree.n_samples[tree.left_child <= 0].min() for tree in trees]
    return np.array(leaves).reshape(-1, n_outputs).min(axis=0)


def test_two_rows_of_a_leaf_are_beyond_its_level(rng):
    X, Y = made(rng, 1200)
    levels, options = [0.02, 0.3, 0.95, 0.998], {"n_estimators": 5, "max_features": 1.0}
    model = GradientBoostingRegressor("quantile", quantile=levels, **options).fit(X, Y[:, 0])
    found, limits = least_leaf(model, 4), [100, 20, 40, 240]  # of 1200 rows no more than a fifth
    assert (limits <= found).all()
    assert (found < np.add(limits, 20)).all()
    for place, level in enumerate(levels):
        alone = GradientBoostingRegressor("quantile", quantile=level, **options).fit(X, Y[:, 0])
        np.testing.assert_array_equal(alone._ensemble.predict_raw(X)[:, 0], model._ensemble.predict_raw(X)[:, place])
    of_targets = GradientBoostingRegressor("quantile", quantile=levels[:3], **options).fit(X, Y)
    assert 100 <= least_leaf(of_targets, 1)[0] < 130, "leaves of several targets are not those of the outermost level"
    given = GradientBoostingRegressor("quantile", quantile=levels, min_samples_leaf=7, **options).fit(X, Y[:, 0])
    assert (least_leaf(given, 4) < 20).all()


@pytest.mark.parametrize("kind", ["plain", "subsample", "goss"])
def test_leaves_of_outer_levels_count_copies(kind, data, rng):
    (X, Y), times = data, rng.integers(0, 4, 400)
    options = {"quantile": [0.03, 0.99], "n_estimators": 4, "random_state": 0, **KINDS[kind]}
    weighted = GradientBoostingRegressor("quantile", **options).fit(X, Y[:, 0], times)
    repeated = GradientBoostingRegressor("quantile", n_jobs=2, **options).fit(
        np.repeat(X, times, axis=0), np.repeat(Y[:, 0], times)
    )
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    n_rows = int(times.sum() * {"plain": 1.0, "subsample": 0.5, "goss": 0.3}[kind])
    assert abs(least_leaf(weighted, 2)[1] / n_rows - 0.2) < 0.1


# Expectiles --------------------------------------------------

EXPECTILE_KINDS = {**KINDS, "linear": {"linear_leaves": True}, "monotone": {"monotonic_cst": SIGNS}}


def expectiles_of(levels=LEVELS, **parameters):
    return model_of(levels, **parameters).set_params(loss="expectile")


def test_expectiles_of_one_target_are_those_alone_sorted(data):
    X, Y = data
    options = {"learning_rate": 1.0, "n_estimators": 40, "max_features": 1.0}
    together = expectiles_of(**options).fit(X, Y[:, 0])
    alone = [expectiles_of(level, **options).fit(X, Y[:, 0]).predict(X) for level in LEVELS]
    raw = together._ensemble.predict_raw(X)
    np.testing.assert_array_equal(raw, np.column_stack(alone))
    assert (np.diff(raw, axis=1) < 0).any(), "sorting had nothing to do"
    np.testing.assert_array_equal(together.predict(X), np.sort(raw, axis=1))


def test_expectiles_balance_squares(rng):
    """Of each level the weighted residuals add up to 0, as those of a mean do."""
    X, Y = made(rng, 3000)
    model = expectiles_of(n_estimators=60, min_samples_leaf=20).fit(X, Y)
    for place, level in enumerate(LEVELS):
        apart = Y - model.predict(X)[:, :, place]
        side = np.where(apart > 0, level, 1 - level)
        assert (np.abs((side * apart).sum(axis=0)) < 0.05 * (side * np.abs(apart)).sum(axis=0)).all()


@pytest.mark.parametrize("kind", EXPECTILE_KINDS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_expectiles_never_cross_and_do_not_depend_on_threads(kind, n_targets, data, tmp_path):
    X, Y = data
    y = Y[:, 0] if n_targets == 1 else Y
    model = expectiles_of(learning_rate=0.5, **EXPECTILE_KINDS[kind]).fit(X, y)
    found = model.predict(X)
    assert found.shape == (*y.shape, 3)
    assert (np.diff(found, axis=-1) >= 0).all()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), found)
    np.testing.assert_array_equal(clone(model).set_params(n_jobs=3).fit(X, y).predict(X), found)
    if kind == "monotone":
        for column in np.flatnonzero(SIGNS):
            assert (SIGNS[column] * np.diff(along(model, X, column), axis=1)).min() >= -1e-9


@pytest.mark.slow
def test_the_score_of_expectiles_is_what_they_save_of_their_loss(data, rng):
    (X, Y), weight = data, rng.random(400)
    model = expectiles_of().fit(X, Y)
    saved = []
    for target in range(2):
        for place, level in enumerate(LEVELS):
            y, own = Y[:, target], model.predict(X)[:, target, place]

            def loss(c, y=y, level=level):
                return np.average(np.where(y > c, level, 1 - level) * (y - c) ** 2, weights=weight)

            least = min(map(loss, np.linspace(y.min(), y.max(), 4001)))
            saved.append(1 - loss(own) / least)
    assert model.score(X, Y, weight) == pytest.approx(np.mean(saved), abs=1e-4)
    one = expectiles_of(0.5).fit(X, Y)
    assert one.score(X, Y) == pytest.approx(r2_score(Y, one.predict(X)))
    constant = expectiles_of().fit(X, np.ones(400))
    assert constant.score(X, np.ones(400)) == 1


def test_errors_of_expectiles(data):
    X, Y = data
    with pytest.raises(
        ValueError, match=r"quantile must list ascending levels for loss='expectile'; got \[0\.9, 0\.1\]"
    ):
        expectiles_of([0.9, 0.1]).fit(X, Y)
    with pytest.raises(ValueError, match="quantile must be between 0 and 1 for loss='expectile'; got None"):
        expectiles_of(None).fit(X, Y)
    with pytest.raises(ValueError, match=r"quantile must be a number .* got array\(0.5\)"):
        expectiles_of(np.array(0.5)).fit(X, Y)
