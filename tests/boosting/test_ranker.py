"""The ranker: queries, weights, validation, quality."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens
from fastens import Checkpoint, GradientBoostingRanker
from fastens.boosting.ranker import RelevanceLabels
from fastens.engine.losses.ranking_loss import BIAS_L2, BIAS_RATE
from fastens.params.options import EarlyStopping, Growth, LambdaRankLoss
from reference.public_estimators import OneQueryRanker
from reference.sklearn_checks import parametrize_with_checks

LOSSES = ["lambdarank", "pairwise", "map", "xendcg"]
SMALL = {"n_estimators": 15, "max_leaf_nodes": 8, "min_samples_leaf": 3}


@pytest.fixture
def table(rng):
    qid = rng.permutation(np.repeat(np.arange(40), 15))
    X = rng.normal(size=(len(qid), 4))
    strength = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=len(qid))
    return X, np.digitize(strength, [0.5, 1.5, 2.5]), qid


@parametrize_with_checks([OneQueryRanker(n_estimators=10, loss=LambdaRankLoss(label_gain="linear"))])
def test_sklearn_check(check):
    check()


def test_it_learns_the_order(table):
    X, y, qid = table
    test = qid < 10
    model = GradientBoostingRanker(**SMALL).fit(X[~test], y[~test], qid=qid[~test])
    untrained = GradientBoostingRanker(n_estimators=1, max_leaf_nodes=2, min_samples_leaf=400)
    untrained.fit(X[~test], y[~test], qid=qid[~test])
    assert model.score(X[test], y[test], qid=qid[test]) > 0.85
    assert untrained.score(X[test], y[test], qid=qid[test]) < 0.6
    assert model.evals_result_["training"]["loss"][-1] < model.evals_result_["training"]["loss"][0]
    assert model.score(X[~test], y[~test], qid=qid[~test]) == pytest.approx(
        1 - model.evals_result_["training"]["loss"][-1]
    )


def test_scores_after_each_round(table):
    X, y, qid = table
    weight = 1 + np.arange(40) % 3
    model = GradientBoostingRanker(**SMALL).fit(X, y, qid=qid)
    staged = list(model.staged_score(X, y, qid=qid))
    np.testing.assert_allclose(staged, 1 - model.evals_result_["training"]["loss"])
    *_, last = model.staged_score(X, y, qid=qid, query_weight=weight)
    assert last == model.score(X, y, qid=qid, query_weight=weight) != staged[-1]
    for score in (model.score, lambda *given: next(model.staged_score(*given))):
        with pytest.raises(ValueError, match="Ranker requires y to be passed, but the target y is None"):
            score(X, None)
    for method in (model.score, model.staged_score, model.refit_leaves, model.permutation_importance):
        with pytest.raises(
            TypeError, match=rf"Ranker\.{method.__name__}\(\) got an unexpected keyword argument 'qids'"
        ):
            method(X, y, qids=qid)
    assert model.n_outputs_ == 1


def test_group_is_the_same_as_qid(table):
    X, y, qid = table
    order = np.argsort(qid, kind="stable")
    sizes = np.bincount(qid)
    model = GradientBoostingRanker(**SMALL).fit(X, y, qid=qid)
    same = GradientBoostingRanker(**SMALL).fit(X[order], y[order], group=sizes)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert model.score(X, y, qid=qid) == same.score(X[order], y[order], group=sizes)
    names = np.array([f"query {number:02d}" for number in qid])
    np.testing.assert_array_equal(GradientBoostingRanker(**SMALL).fit(X, y, qid=names).predict(X), model.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_rows_are_repetition(table, rng, loss):
    X, y, qid = table
    times = rng.integers(0, 3, len(y))
    # Rows of no leaf's limit: `min_samples_leaf` counts rows, whatever their weights.
    model = GradientBoostingRanker(loss, n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=1.0))
    weighted = clone(model).fit(X, y, sample_weight=times, qid=qid)
    repeated = clone(model).fit(*(np.repeat(part, times, axis=0) for part in (X, y)), qid=np.repeat(qid, times))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_allclose(
        weighted.evals_result_["training"]["loss"], repeated.evals_result_["training"]["loss"], rtol=1e-12
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_queries_are_repetition(table, loss):
    X, y, qid = table
    model = GradientBoostingRanker(loss, n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=1.0))
    times = np.arange(40) % 3
    weighted = clone(model).fit(X, y, qid=qid, query_weight=times)
    parts = [(X[qid == q], y[qid == q], qid[qid == q] + 100 * copy) for q in range(40) for copy in range(times[q])]
    X2, y2, qid2 = (np.concatenate(found) for found in zip(*parts, strict=True))
    repeated = clone(model).fit(X2, y2, qid=qid2)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_allclose(
        weighted.evals_result_["training"]["loss"], repeated.evals_result_["training"]["loss"], rtol=1e-12
    )
    assert weighted.score(X, y, qid=qid, query_weight=times) == pytest.approx(repeated.score(X2, y2, qid=qid2))


def test_query_weights_are_not_row_weights(table):
    X, y, qid = table
    rule = f"sample_weight must have one weight for each of the {len(y)} rows"
    with pytest.raises(
        ValueError, match=rf"{rule}; got one for each of the 40 queries\. Pass query weights as query_weight"
    ):
        GradientBoostingRanker(n_estimators=2).fit(X, y, np.ones(40), qid=qid)
    with pytest.raises(ValueError, match=r"one weight for each of the \d+ rows; got shape \(39,\)"):
        GradientBoostingRanker(n_estimators=2).fit(X, y, np.ones(39), qid=qid)


def test_early_stopping_on_queries_of_ones_own_and_on_a_share(table):
    X, y, qid = table
    test = qid < 10
    many = {**SMALL, "n_estimators": 300, "learning_rate": 0.5, "n_iter_no_change": 5}
    model = GradientBoostingRanker(**many)
    model.fit(X[~test], y[~test], X_val=X[test], y_val=y[test], qid=qid[~test], qid_val=qid[test])
    assert model.n_estimators_ < 300
    assert model.score(X[test], y[test], qid=qid[test]) == pytest.approx(
        1 - model.evals_result_["validation"]["loss"].min()
    )
    share = GradientBoostingRanker(**many, early_stopping=True, random_state=0).fit(X, y, qid=qid)
    assert share.n_estimators_ < 300
    assert len(share.evals_result_["validation"]["loss"]) > 0
    with pytest.raises(ValueError, match="early_stopping must not be True with a single query"):
        share.fit(X, y, group=[len(X)])


def test_weights_of_rows_to_validate_on(table):
    X, y, qid = table
    test, model = qid < 10, GradientBoostingRanker(**SMALL)
    parts = {"qid": qid[~test], "X_val": X[test], "y_val": y[test], "qid_val": qid[test]}
    model.fit(X[~test], y[~test], **parts, sample_weight_val=(qid[test] < 5).astype(float))
    fewer = qid < 5
    parts = {"qid": qid[~test], "X_val": X[fewer], "y_val": y[fewer], "qid_val": qid[fewer]}
    same = GradientBoostingRanker(**SMALL).fit(X[~test], y[~test], **parts)
    np.testing.assert_allclose(model.evals_result_["validation"]["loss"], same.evals_result_["validation"]["loss"])


@pytest.mark.parametrize(("given", "named"), [("qid", "qid_val"), ("group", "qid_val"), ("qid_val", "qid")])
def test_queries_are_given_for_both_tables(table, given, named):
    X, y, qid = table
    values = {"qid": qid, "qid_val": qid, "group": np.unique(qid, return_counts=True)[1]}
    with pytest.raises(ValueError, match=rf"^{named} .*must be passed"):
        GradientBoostingRanker(**SMALL).fit(X, y, X_val=X, y_val=y, **{given: values[given]})


def test_missing_queries_are_an_error(table):
    X, y, qid = table
    model = GradientBoostingRanker(**SMALL).fit(X, y, qid=qid)
    for method in (model.fit, model.score, model.refit_leaves, model.permutation_importance, model.staged_score):
        for given in ((X, y), (X, y, qid)):  # the third argument is sample_weight, as in scikit-learn
            with pytest.raises(
                ValueError, match=r"^qid \(the query of each row\) or group \(the number of rows of each"
            ):
                next(iter(method(*given)))


@pytest.mark.parametrize("loss", LOSSES)
def test_threads_and_the_order_of_rows_do_not_change_the_model(table, rng, loss):
    X, y, qid = table
    order = rng.permutation(len(y))
    position = rng.integers(1, 16, len(y))
    for shown in (None, position):
        model = GradientBoostingRanker(loss, **SMALL, n_jobs=1).fit(X, y, qid=qid, position=shown)
        other = GradientBoostingRanker(loss, **SMALL, n_jobs=2)
        other.fit(X[order], y[order], qid=qid[order], position=None if shown is None else shown[order])
        np.testing.assert_array_equal(model.predict(X), other.predict(X))


@pytest.mark.parametrize("loss", [*LOSSES, LambdaRankLoss("map", None), LambdaRankLoss("pairs", 5, normalize=False)])
def test_every_loss_learns_the_order_and_goes_on(table, loss, tmp_path):
    X, y, qid = table
    test = qid < 10
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.05, np.nan, X)
    model = GradientBoostingRanker(loss, **SMALL).fit(X[~test], y[~test], qid=qid[~test])
    assert model.score(X[test], y[test], qid=qid[test]) > 0.8
    parts = GradientBoostingRanker(loss, **{**SMALL, "n_estimators": 6}, warm_start=True)
    parts.fit(X[~test], y[~test], qid=qid[~test]).set_params(n_estimators=15).fit(X[~test], y[~test], qid=qid[~test])
    model.save(tmp_path / "ranker")
    for same in (parts, fastens.load(tmp_path / "ranker")):
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
    changed = "xendcg" if "map" in repr(loss) else "map"
    with pytest.raises(ValueError, match="loss must be the same as in the last fit"):
        parts.set_params(loss=changed).fit(X, y, qid=qid)


def test_loss_of_average_precision(table):
    X, y, qid = table
    relevance = np.where(y > 1, y, 0)
    model = GradientBoostingRanker("map", ndcg_at=5, **SMALL).fit(
        X, relevance, qid=qid, X_val=X, y_val=relevance, qid_val=qid
    )
    again = GradientBoostingRanker("map", ndcg_at=5, eval_metric="map@5", **SMALL).fit(
        X, relevance, qid=qid, X_val=X, y_val=relevance, qid_val=qid
    )
    found = [1 - again.evals_result_["validation"]["map@5"], model.evals_result_["validation"]["loss"]]
    np.testing.assert_allclose(*found, rtol=1e-12)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"integers \(numbers of documents\) for the average precision"):
        GradientBoostingRanker("map", **SMALL).fit(X, relevance, rng.random(len(y)), qid=qid)


@pytest.mark.parametrize("weight", [None, "documents", "queries"])
def test_rounds_draw_whole_queries(table, rng, weight):
    X, y, qid = table
    times = rng.integers(1, 3, 40)[qid] if weight == "queries" else rng.integers(0, 3, len(y))
    given = {} if weight is None else {"sample_weight": times}
    if weight == "queries":
        given = {"query_weight": times[np.unique(qid, return_index=True)[1]]}
    model = GradientBoostingRanker(
        sampling="queries", subsample=0.5, random_state=0, n_estimators=10, min_samples_leaf=1,
        growth=Growth(min_child_weight=1.0),
    )  # fmt: skip
    weighted = clone(model).fit(X, y, qid=qid, **given)
    if weight is not None:
        rows = np.repeat(np.arange(len(y)), times)
        copy = np.concatenate([np.arange(n) for n in times]) if weight == "queries" else 0
        repeated = clone(model).fit(X[rows], y[rows], qid=qid[rows] + 1000 * copy)
        np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    order = rng.permutation(len(y))
    given = {**given, "sample_weight": times[order]} if weight == "documents" else given
    np.testing.assert_array_equal(
        clone(model).fit(X[order], y[order], qid=qid[order], **given).predict(X), weighted.predict(X)
    )
    assert not np.array_equal(
        clone(model).set_params(sampling="uniform").fit(X, y, qid=qid).predict(X), weighted.predict(X)
    )


def test_draws_of_queries(table):
    X, y, qid = table
    model = GradientBoostingRanker(sampling="queries", subsample=0.3, random_state=0, **SMALL, oob_score=True).fit(
        X, y, qid=qid
    )
    data = model._learn_data(X, RelevanceLabels(y, qid, None), None, 0)
    hashes = model._row_hashes(data, 1)
    assert len(np.unique(hashes)) == 40
    assert all(len(np.unique(hashes[qid == q])) == 1 for q in range(40))
    assert model.oob_improvement_.mean() > 0
    with pytest.raises(ValueError, match="subsample must be below 1 with sampling='queries'"):
        GradientBoostingRanker(sampling="queries").fit(X, y, qid=qid)


# Clicks --------------------------------------------------


def clicks(rng, n_queries=300, n_shown=15):
    """Clicks on lists that a poor ranker has shown; a document at position k is looked at with probability 1 / k."""
    n_rows = n_queries * n_shown
    X, qid = rng.normal(size=(n_rows, 5)), np.repeat(np.arange(n_queries), n_shown)
    order = np.lexsort((-X[:, 1] - 0.3 * rng.normal(size=n_rows), qid))
    X, position = X[order], np.tile(np.arange(1, n_shown + 1), n_queries)
    relevance = np.digitize(X[:, 0] + 0.3 * rng.normal(size=n_rows), [0.0, 1.0])
    clicked = rng.random(n_rows) < (0.05 + 0.45 * relevance) / position
    return X, clicked.astype(int), qid, position


@pytest.mark.parametrize(("loss", "gain"), [("lambdarank", 0.05), ("pairwise", 0.05), ("map", 0.05), ("xendcg", 0.01)])
def test_position_bias_of_clicks(rng, loss, gain):
    X, y, qid, position = clicks(rng)
    T, queries = rng.normal(size=(2000, 5)), np.repeat(np.arange(100), 20)
    relevance = np.digitize(T[:, 0], [0.0, 1.0])
    naive = GradientBoostingRanker(loss, n_estimators=30).fit(X, y, qid=qid)
    model = GradientBoostingRanker(loss, n_estimators=30).fit(X, y, qid=qid, position=position)
    assert model.score(T, relevance, qid=queries) > naive.score(T, relevance, qid=queries) + gain
    assert model.position_bias_.shape == (16,)
    assert model.position_bias_[:2].tolist() == [0.0, 0.0]  # no row has position 0, and 1 is the first
    assert np.corrcoef(model.position_bias_[1:9], -np.log(position[:8]))[0, 1] > 0.9
    with pytest.raises(AttributeError, match="position_bias_ is only learned if fit gets the position"):
        naive.position_bias_  # noqa: B018


def test_position_bias_is_a_newton_step(rng):
    X, y, qid, position = clicks(rng, 20)
    loss = GradientBoostingRanker(n_estimators=1)._get_loss()
    target = np.column_stack([y, qid, np.ones(len(y)), position]).astype(float)
    weight, raw = rng.integers(1, 4, len(y)).astype(float), X[:, :1].T.copy()
    out = np.empty((2, 1, len(y)), dtype=np.float32)
    bias = np.zeros(16)
    for _ in range(2):
        loss.start_round(target, raw, weight)
        loss.gradients(target, raw, out[0], out[1])
        g, h = out[:, 0].astype(float)
        n_shown = np.bincount(position, weight)[1:]
        means = [np.bincount(position, weight * each)[1:] / n_shown for each in (g, h)]
        bias[1:] -= BIAS_RATE * means[0] / (means[1] + BIAS_L2)
        bias[1:] -= bias[1]
        np.testing.assert_allclose(loss.position_biases[-1], bias, rtol=1e-9)
        shifted = loss.position_biases[-2][position]
        alone = np.empty_like(out)
        GradientBoostingRanker()._get_loss().gradients(target[:, :3].copy(), raw + shifted, alone[0], alone[1])
        np.testing.assert_array_equal(out, alone)


@pytest.mark.parametrize(
    "options", [{}, {"boosting": "dart"}, {"subsample": 0.5, "oob_score": True}, {"early_stopping": True}]
)
def test_position_bias_goes_on(rng, tmp_path, options):
    X, y, qid, position = clicks(rng, 60)
    given = {**SMALL, "random_state": 0, **options}
    whole = GradientBoostingRanker(**given).fit(X, y, qid=qid, position=position)
    part = GradientBoostingRanker(**{**given, "n_estimators": 6}, callbacks=[Checkpoint(tmp_path / "round", 1)])
    part.fit(X, y, qid=qid, position=position)
    whole.save(tmp_path / "whole")
    resumed = GradientBoostingRanker(**given).fit(X, y, qid=qid, position=position, resume=tmp_path / "round")
    part.set_params(warm_start=True, n_estimators=15, callbacks=None).fit(X, y, qid=qid, position=position)
    for same in (part, resumed, fastens.load(tmp_path / "whole"), pickle.loads(pickle.dumps(whole))):
        np.testing.assert_array_equal(same.predict(X), whole.predict(X))
        np.testing.assert_array_equal(same.position_bias_, whole.position_bias_)
    with pytest.raises(ValueError, match="position must be given, as in the fit that this one continues"):
        part.set_params(n_estimators=16).fit(X, y, qid=qid)


def test_position_bias_counts_weights_as_copies(rng):
    X, y, qid, position = clicks(rng, 60)
    times = rng.integers(0, 3, len(y))
    init = rng.normal(size=len(y))
    model = GradientBoostingRanker(n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=1.0))
    weighted = clone(model).fit(X, y, times, qid=qid, position=position, init_score=init)
    repeated = [np.repeat(each, times, axis=0) for each in (X, y, qid, position, init)]
    repeated = clone(model).fit(*repeated[:2], qid=repeated[2], position=repeated[3], init_score=repeated[4])
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_array_equal(weighted.position_bias_, repeated.position_bias_)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ([1, 2], r"position must hold a number for each of the 600 rows; got int64 of shape \(2,\)"),
        (["top"] * 600, "position must hold a number for each of the 600 rows; got"),
        ([-1] * 600, "position must hold whole numbers from 0 to 9999; got -1"),
        ([0.5] * 600, r"position must hold whole numbers from 0 to 9999; got 0\.5"),
        ([np.nan] * 600, "position must hold whole numbers from 0 to 9999; got nan"),
        ([10_000] * 600, "position must hold whole numbers from 0 to 9999; got 10000"),
    ],
)
def test_wrong_positions(table, position, message):
    X, y, qid = table
    with pytest.raises(ValueError, match=message):
        GradientBoostingRanker(**SMALL).fit(X, y, qid=qid, position=position)


def test_position_is_not_combined_with_folds(table):
    X, y, qid = table
    model = GradientBoostingRanker(early_stopping=EarlyStopping(folds=3))
    with pytest.raises(ValueError, match=r"position must be None with early_stopping\.folds"):
        model.fit(X, y, qid=qid, position=qid)


def test_names_pickle_save_and_load(table, tmp_path):
    X, y, qid = table
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["kind"] = pd.Categorical(np.where(X[:, 0] > 0, "x", "y"))
    model = GradientBoostingRanker(**SMALL).fit(frame, y, qid=qid)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d", "kind"]
    model.save(tmp_path / "ranker")
    for same in (pickle.loads(pickle.dumps(model)), fastens.load(tmp_path / "ranker")):
        np.testing.assert_array_equal(same.predict(frame[list("dcba") + ["kind"]]), model.predict(frame))
        assert same.score(frame, y, qid=qid) == model.score(frame, y, qid=qid)


def test_many_categories_get_statistics_of_relevance(rng):
    qid = np.repeat(np.arange(30), 40)
    site = rng.integers(0, 100, len(qid))
    quality = rng.normal(size=100)
    y = np.digitize(quality[site] + 0.2 * rng.normal(size=len(qid)), [0, 1])
    frame = pd.DataFrame({"site": pd.Categorical(site)})
    test = qid < 10
    model = GradientBoostingRanker(**SMALL).fit(frame[~test], y[~test], qid=qid[~test])
    assert model.score(frame[test], y[test], qid=qid[test]) > 0.9


@pytest.mark.parametrize("truncation_level", [1, 3])
def test_parameters_of_the_loss_have_an_effect(table, truncation_level):
    X, y, qid = table
    model = GradientBoostingRanker(**SMALL).fit(X, y, qid=qid)
    for change in (
        {"loss": LambdaRankLoss(truncation_level=truncation_level)},
        {"loss": LambdaRankLoss(label_gain="linear")},
        {"loss": LambdaRankLoss(normalize=False)},
    ):
        assert (clone(model).set_params(**change).fit(X, y, qid=qid).predict(X) != model.predict(X)).any()
    everywhere = clone(model).set_params(ndcg_at=None).fit(X, y, qid=qid)
    assert everywhere.score(X, y, qid=qid) != model.score(X, y, qid=qid)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"qid": [0, 1]}, "qid must have one query for each of the 600 rows"),
        ({"qid": [0.0] * 599 + [np.nan]}, "qid must not have missing values; row .* has one"),
        ({"group": [300, 299]}, "group must hold the number of rows of each query, positive integers"),
        ({"group": [600, 0]}, "group must hold the number of rows of each query, positive integers.*got a size of 0"),
        ({"group": [600.0]}, r"group must hold .*got float64 of shape \(1,\)"),
        ({"group": np.ones(600, int) * 2}, r"sum 1200 \(pass the query of each row as qid\)"),
        (
            {"qid": np.zeros(600), "group": [600]},
            "qid and group must not be passed together, because they hold the same",
        ),
        ({"group": [300, 300], "query_weight": [1, -2]}, "query_weight must be finite and non-negative; got -2"),
        ({"group": [300, 300], "query_weight": ["1", "2"]}, "query_weight must hold numbers"),
        (
            {"group": [600], "qid_val": np.zeros(600)},
            r"qid_val or group_val must be passed with X_val, and only with it\.",
        ),
        ({"group": [600], "query_weight": [1, 2]}, "query_weight must have one weight for each of the 1 queries"),
        ({"group": [600], "query_weight": [-1]}, "must be finite and non-negative.*got -1"),
    ],
)
def test_wrong_queries(table, given, message):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        GradientBoostingRanker(**SMALL).fit(X, y, **given)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ndcg_at": 0}, "ndcg_at must be a whole number of at least 1 or None; got 0"),
        (
            {"loss": LambdaRankLoss(truncation_level=0)},
            "truncation_level must be a whole number of at least 1 or None; got 0",
        ),
        ({"loss": LambdaRankLoss(label_gain="cubic")}, "label_gain must be 'exponential' or 'linear'; got 'cubic'"),
        ({"loss": LambdaRankLoss(normalize=1)}, "normalize must be True or False; got 1"),
    ],
)
def test_wrong_parameters(table, parameters, message):
    X, y, qid = table
    with pytest.raises(ValueError, match=message):
        GradientBoostingRanker(**parameters).fit(X, y, qid=qid)


def test_wrong_relevance(table):
    X, y, qid = table
    with pytest.raises(ValueError, match=r"y must hold relevance labels from 0 to 64; got -1\.0 to"):
        GradientBoostingRanker().fit(X, y - 1, qid=qid)


@pytest.mark.parametrize("wrong", [-1.0, 99.0, np.nan])
def test_rows_without_weight_may_have_any_relevance(wrong, table):
    X, y, qid = table
    weight = np.arange(len(y)) % 3 > 0
    given = np.where(weight, y, wrong)
    model = GradientBoostingRanker(n_estimators=2).fit(X, given, sample_weight=weight, qid=qid)
    other = clone(model).fit(X, y, sample_weight=weight, qid=qid)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    assert model.score(X, given, sample_weight=weight, qid=qid) == other.score(X, y, sample_weight=weight, qid=qid)


@pytest.mark.slow
def test_as_good_as_lightgbm_on_its_own_table(load_table):
    lightgbm = pytest.importorskip("lightgbm")
    frame = load_table("rank_lightgbm")
    X = frame[[name for name in frame if name.startswith("f")]].to_numpy(float)
    y, qid = frame["relevance"].to_numpy(), frame["qid"].to_numpy()
    found = []
    for part in range(3):
        train, test = qid % 3 != part, qid % 3 == part
        ours = GradientBoostingRanker(n_estimators=50).fit(X[train], y[train], qid=qid[train])
        sizes = np.unique(qid[train], return_counts=True)[1]
        order = np.argsort(qid[train], kind="stable")
        peer = lightgbm.LGBMRanker(n_estimators=50, verbose=-1, n_jobs=2)
        peer.fit(X[train][order], y[train][order], group=sizes)
        own = ours.score(X[test], y[test], qid=qid[test])
        ours.predict = peer.predict
        found.append((own, ours.score(X[test], y[test], qid=qid[test])))
    own, other = np.mean(found, axis=0)
    assert own > other - 0.01


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (["a"] * 5 + [1] * 5, "qid must hold labels of one sortable type"),
        (pd.to_datetime(["2020-01-01"] * 9 + [None]), "qid must not have missing values; row .* has one"),
    ],
)
def test_queries_have_labels_of_one_kind(qid, message):
    X = np.arange(10.0)[:, None]
    model = GradientBoostingRanker(n_estimators=1)
    model.fit(X, X[:, 0] % 3, qid=["a", np.str_("b")] * 5)
    with pytest.raises(ValueError, match=message):
        model.fit(X, X[:, 0] % 3, qid=qid)
    with pytest.raises(ValueError, match=message):
        model.score(X, X[:, 0] % 3, qid=qid)


def test_strings_of_numpy_and_of_python_are_of_one_kind():
    X, qid = np.arange(10.0)[:, None], np.repeat(["a", "b"], 5)
    expected = GradientBoostingRanker(n_estimators=1).fit(X, X[:, 0] % 3, qid=qid).predict(X)
    mixed = [*qid[:5], *qid[5:].tolist()]
    found = GradientBoostingRanker(n_estimators=1).fit(X, X[:, 0] % 3, qid=mixed).predict(X)
    np.testing.assert_array_equal(found, expected)


def test_position_is_a_column(rng):
    X, y, qid, position = clicks(rng, 60)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = GradientBoostingRanker(**SMALL).fit(frame, y, qid=qid, position=position)
    named = frame.assign(clicked=y, query=qid, place=position)
    same = GradientBoostingRanker(**SMALL).fit(named, "clicked", qid="query", position="place")
    np.testing.assert_array_equal(same.predict(frame), model.predict(frame))
    assert same.feature_names_in_.tolist() == list("abcde")
