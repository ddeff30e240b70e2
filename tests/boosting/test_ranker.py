"""The ranker: queries, weights, validation, quality."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fastens
from fastens import GradientBoostingRanker
from fastens.params.options import Growth, LambdaRankLoss
from reference.public_estimators import OneQueryRanker
from reference.sklearn_checks import parametrize_with_checks

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


def test_weights_of_rows_are_repetition(table, rng):
    X, y, qid = table
    times = rng.integers(0, 3, len(y))
    # Rows of no leaf's limit: `min_samples_leaf` counts rows, whatever their weights.
    model = GradientBoostingRanker(n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=1.0))
    weighted = clone(model).fit(X, y, sample_weight=times, qid=qid)
    repeated = clone(model).fit(*(np.repeat(part, times, axis=0) for part in (X, y)), qid=np.repeat(qid, times))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_allclose(
        weighted.evals_result_["training"]["loss"], repeated.evals_result_["training"]["loss"], rtol=1e-12
    )


def test_weights_of_queries_are_repetition(table):
    X, y, qid = table
    model = GradientBoostingRanker(n_estimators=10, min_samples_leaf=1, growth=Growth(min_child_weight=1.0))
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


def test_weights_of_queries_as_those_of_rows(table):
    X, y, qid = table
    rule = f"sample_weight must have one weight for each of the {len(y)} rows"
    with pytest.raises(ValueError, match=f"{rule}; got one for each of the 40 queries, which query_weight takes"):
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
    with pytest.raises(ValueError, match=f"^{named} (or group_val )?must be given"):
        GradientBoostingRanker(**SMALL).fit(X, y, X_val=X, y_val=y, **{given: values[given]})


def test_missing_queries_are_an_error(table):
    X, y, qid = table
    model = GradientBoostingRanker(**SMALL).fit(X, y, qid=qid)
    for method in (model.fit, model.score, model.refit_leaves, model.permutation_importance, model.staged_score):
        for given in ((X, y), (X, y, qid)):  # the third argument is sample_weight, as in scikit-learn
            with pytest.raises(ValueError, match=r"^qid must be given, .*the third argument is sample_weight"):
                next(iter(method(*given)))


def test_threads_do_not_change_the_model(table):
    X, y, qid = table
    one, two = (GradientBoostingRanker(**SMALL, n_jobs=n).fit(X, y, qid=qid).predict(X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


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
        ({"qid": [0, 1]}, "qid must have a query for each of the 600 rows"),
        ({"qid": [0.0] * 599 + [np.nan]}, "qid must have no missing values; that of row 599 is missing"),
        ({"group": [300, 299]}, "group must hold the number of rows of each query, .*600 in all.*sum 599"),
        ({"group": [600, 0]}, "group must hold .*whole numbers above 0.*got a size of 0"),
        ({"group": [600.0]}, r"group must hold .*got float64 of shape \(1,\)"),
        ({"group": np.ones(600, int) * 2}, r"sum 1200 \(qid takes the query of each row\)"),
        ({"qid": np.zeros(600), "group": [600]}, "qid and group must not be given together"),
        ({"group": [300, 300], "query_weight": [1, -2]}, "query_weight must be finite and not negative; got -2"),
        ({"group": [300, 300], "query_weight": ["1", "2"]}, "query_weight must hold numbers"),
        ({"group": [600], "qid_val": np.zeros(600)}, "qid_val or group_val must be given where X_val is"),
        ({"group": [600], "query_weight": [1, 2]}, "query_weight must have one weight for each of the 1 queries"),
        ({"group": [600], "query_weight": [-1]}, "must be finite and not negative; got -1"),
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
        ({"loss": LambdaRankLoss(truncation_level=0)}, "truncation_level must be a whole number of at least 1; got 0"),
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
    with pytest.raises(ValueError, match=r"y must hold relevances from 0 to 64; it goes from -1\.0 to"):
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
        (["a"] * 5 + [1] * 5, "qid must hold labels of one kind, which have an order; it holds int, str"),
        (pd.to_datetime(["2020-01-01"] * 9 + [None]), "qid must have no missing values; that of row 9 is missing"),
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
