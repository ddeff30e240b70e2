"""The naive Bayes classifiers: like scikit-learn's where those exist, and what these add."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.naive_bayes as peers
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import fastens
from fastens import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MixedNB, ModelFileError, MultinomialNB

PEERS = {
    "BernoulliNB": (BernoulliNB, peers.BernoulliNB, {}),
    "BernoulliNB, threshold": (BernoulliNB, peers.BernoulliNB, {"binarize": 2.0, "alpha": 0.3}),
    "CategoricalNB": (CategoricalNB, peers.CategoricalNB, {}),
    "CategoricalNB, prior": (CategoricalNB, peers.CategoricalNB, {"class_prior": [0.2, 0.3, 0.5], "min_categories": 9}),
    "ComplementNB": (ComplementNB, peers.ComplementNB, {}),
    "ComplementNB, norm": (ComplementNB, peers.ComplementNB, {"norm": True, "alpha": 0.1}),
    "GaussianNB": (GaussianNB, peers.GaussianNB, {}),
    "GaussianNB, prior": (GaussianNB, peers.GaussianNB, {"priors": [0.2, 0.3, 0.5], "var_smoothing": 1e-3}),
    "MultinomialNB": (MultinomialNB, peers.MultinomialNB, {"fit_prior": False}),
}
DISCRETE = [BernoulliNB, CategoricalNB, MultinomialNB]
ALL = [*DISCRETE, ComplementNB, GaussianNB, MixedNB]


@pytest.fixture
def rows(rng):
    y = rng.integers(0, 3, 400)
    X = rng.poisson(1 + np.outer(y, np.arange(6)) / 4)
    return X.clip(0, 8), y


def make_frame(rng, n_rows=300):
    y = rng.choice(["no", "yes"], n_rows)
    is_yes = y == "yes"
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n_rows) < 0.1, np.nan, rng.standard_normal(n_rows) + is_yes),
            "colour": pd.Categorical(np.where(rng.random(n_rows) < 0.4 + 0.4 * is_yes, "rot", "grün")),
            "word": pd.Series(np.where(is_yes, rng.choice(["a", "b"], n_rows), "c")).mask(rng.random(n_rows) < 0.2),
            "flag": rng.random(n_rows) < 0.3 + 0.2 * is_yes,
            "visits": rng.poisson(1 + is_yes),
        }
    ), y


# As scikit-learn's --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("kind", ["int", "float", "float32", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_as_scikit_learn(rows, rng, name, kind, weighted):
    ours, theirs, parameters = PEERS[name]
    X, y = rows
    weight = rng.random(len(y)) if weighted else None
    given = {"int": X, "float": X.astype(float), "float32": X.astype(np.float32), "sparse": sparse.csr_matrix(X)}[kind]
    model, peer = ours(**parameters).fit(given, y, weight), theirs(**parameters).fit(X.astype(float), y, weight)
    if weighted and ours is GaussianNB:  # whose epsilon_ does not know the weights
        model.var_smoothing = peer.epsilon_ / (model.epsilon_ / model.var_smoothing)
        model.fit(given, y, weight)
    assert_allclose(model.predict_log_proba(given), peer.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    assert_allclose(model.predict_joint_log_proba(given), peer.predict_joint_log_proba(X), rtol=1e-9, atol=1e-9)
    best = np.sort(peer.predict_joint_log_proba(X))[:, -2:]
    clear = best[:, 1] - best[:, 0] > 1e-9  # rounding decides between the others
    assert clear.mean() > 0.9
    assert_array_equal(model.predict(given)[clear], peer.predict(X)[clear])


def test_fitted_attributes_match_scikit_learn(rows):
    X, y = rows
    for ours, theirs, parameters in PEERS.values():
        model, peer = ours(**parameters).fit(X, y), theirs(**parameters).fit(X, y)
        for name in (
            "class_count_",
            "class_log_prior_",
            "feature_count_",
            "feature_all_",
            "theta_",
            "var_",
            "epsilon_",
            "class_prior_",
        ):
            if hasattr(peer, name):
                assert_allclose(getattr(model, name), getattr(peer, name), rtol=1e-9, err_msg=name)
        if ours is CategoricalNB:
            assert_array_equal(model.n_categories_, peer.n_categories_)
            for name in ("category_count_", "feature_log_prob_"):
                for one, other in zip(getattr(model, name), getattr(peer, name), strict=True):
                    assert_allclose(one, other)
        elif hasattr(peer, "feature_log_prob_"):
            assert_allclose(model.feature_log_prob_, peer.feature_log_prob_)


# Smoothing --------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "pseudo"),
    [
        ({"smoothing": "laplace", "alpha": 2.0}, 2.0),
        ({"smoothing": "m", "m": 6.0}, 2.0),
        ({"smoothing": "kt"}, 0.5),
        ({"smoothing": "bdeu", "ess": 6.0}, 1.0),
        ({"smoothing": "none"}, 0.0),
    ],
)
def test_pseudo_counts(parameters, pseudo):
    X, y = [[0], [0], [1], [2], [2], [2]], [0, 0, 0, 1, 1, 1]
    model = CategoricalNB(**parameters).fit(X, y)
    expected = (np.array([[2, 1, 0], [0, 0, 3]]) + pseudo) / (3 + 3 * pseudo)
    assert_allclose(np.exp(model.feature_log_prob_[0]), expected)


def test_pseudo_counts_by_column(rows):
    X, y = rows
    alpha = np.arange(6) + 0.5
    ours, theirs = MultinomialNB(alpha=alpha).fit(X, y), peers.MultinomialNB(alpha=alpha).fit(X, y)
    assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_)
    with pytest.raises(ValueError, match=r"alpha must .* 6 columns; got 2"):
        CategoricalNB(alpha=[1, 2]).fit(X, y)


@pytest.mark.parametrize("alpha", [0.0, [0.0, 1e-12, 0.5, 1.0, 1.0, 2.0]])
@pytest.mark.parametrize("name", ["BernoulliNB", "CategoricalNB", "ComplementNB", "MultinomialNB"])
def test_small_pseudo_counts_are_replaced_on_request(name, alpha, rows):
    X, y = rows
    ours, theirs = (getattr(module, name)(alpha=alpha, force_alpha=False) for module in (fastens, peers))
    with pytest.warns(UserWarning, match="alpha must be at least 1e-10 with force_alpha=False, so 0 is replaced"):
        ours.fit(X, y)
    if name in ("BernoulliNB", "CategoricalNB") and np.ndim(alpha):
        return  # scikit-learn takes a single number
    with pytest.warns(UserWarning, match="alpha too small"):
        assert_allclose(ours.predict_log_proba(X), theirs.fit(X, y).predict_log_proba(X), atol=1e-8)


def test_where_no_class_is_possible_the_prior_decides():
    model = CategoricalNB(smoothing="none").fit([[0, 0], [0, 0], [1, 1]], ["a", "a", "b"])
    assert_allclose(model.predict_proba([[0, 1], [0, 0]]), [[2 / 3, 1 / 3], [1, 0]])
    counts = MultinomialNB(smoothing="none").fit([[2, 0], [1, 0], [0, 3]], ["a", "a", "b"])
    assert_allclose(counts.predict_proba([[1, 1], [0, 2]]), [[2 / 3, 1 / 3], [0, 1]])
    assert counts.predict_joint_log_proba([[1, 1]]).tolist() == [[-np.inf, -np.inf]]


# Missing values, categories never seen --------------------------------------------------


@pytest.mark.parametrize("Model", [BernoulliNB, CategoricalNB, GaussianNB, MixedNB])
def test_a_missing_value_is_skipped(rows, Model):
    X, y = rows
    X = X.astype(float)
    holed = X.copy()
    holed[::3, 0] = np.nan
    model = Model().fit(holed, y)
    known = ~np.isnan(holed[:, 0])
    first = Model().fit(X[known][:, :1], y[known])
    others = Model().fit(X[:, 1:], y)
    prior = model.class_log_prior_
    expected = others.predict_joint_log_proba(X[:, 1:]) - prior
    expected[known] += first.predict_joint_log_proba(X[known][:, :1]) - first.class_log_prior_
    tolerance = 1e-6 if Model in (GaussianNB, MixedNB) else 1e-12
    assert_allclose(model.predict_joint_log_proba(holed), expected + prior, rtol=tolerance)


def test_missing_entries_of_sparse_rows(rows):
    X, y = rows
    holed = X.astype(float)
    holed[::3, :2] = np.nan
    for Model in (BernoulliNB, MultinomialNB, GaussianNB):
        dense, packed = Model().fit(holed, y), Model().fit(sparse.csr_matrix(holed), y)
        assert_allclose(packed.predict_log_proba(sparse.csr_matrix(holed)), dense.predict_log_proba(holed), atol=1e-12)


def test_a_category_never_seen():
    X, y = pd.DataFrame({"sky": ["sun", "sun", "rain"], "wind": ["weak", "weak", "strong"]}), ["out", "out", "in"]
    new = pd.DataFrame({"sky": ["hail", None], "wind": ["weak", "weak"]})
    ignored = CategoricalNB().fit(X, y)
    assert_array_equal(ignored.predict_proba(new)[0], ignored.predict_proba(new)[1])
    smoothed = CategoricalNB(unseen="smooth").fit(X, y)
    # "in" has one row and two categories: a category it never had has 1 / 3; "out" has two rows: 1 / 4
    gap = smoothed.predict_joint_log_proba(new)
    assert_allclose(np.exp(gap[0] - gap[1]), [1 / 3, 1 / 4])
    strict = CategoricalNB(unseen="error").fit(X, y)
    with pytest.raises(ValueError, match="Column 'sky' must hold categories seen in fit; row 0 holds 'hail'"):
        strict.predict(new)
    strict.predict(new[1:])
    with pytest.raises(ValueError, match=r"Column 0 must .* row 1 holds 7"):
        CategoricalNB(unseen="error").fit([[0], [1]], [0, 1]).predict([[0], [7]])


def test_numbers_that_are_not_positions_are_categories_by_value():
    X, y = np.array([[-1.0, 2.5], [-1.0, 0.1], [4.0, 0.1], [np.nan, 0.1]]), [0, 0, 1, 1]
    model = CategoricalNB().fit(X, y)
    assert model.n_categories_.tolist() == [2, 2]
    named = CategoricalNB().fit(
        pd.DataFrame(X).astype(object).map(lambda value: None if np.isnan(value) else str(value)), y
    )
    assert_allclose(model.predict_proba(X), named.predict_proba(pd.DataFrame(X).map(str).replace("nan", None)))
    assert_allclose(model.predict_proba([[3.0, 0.1]]), model.predict_proba([[np.nan, 0.1]]))
    assert_array_equal(model.predict_proba(sparse.csr_matrix(np.nan_to_num(X))), model.predict_proba(np.nan_to_num(X)))


# Weights, parts, threads --------------------------------------------------


@pytest.mark.parametrize("Model", ALL)
def test_weights_are_repetition(rng, Model):
    X, y = make_frame(rng)
    X = X if Model in (CategoricalNB, MixedNB) else X[["visits", "flag"]]
    X = X.drop(columns="size") if Model is CategoricalNB else X
    weight = rng.integers(0, 3, len(y))
    X.loc[0, "visits"], weight[0] = 40, 0
    if "word" in X:
        X["word"] = X["word"].astype(object)
        X.loc[0, "word"] = "absent"
    repeated = np.repeat(np.arange(len(y)), weight)
    model, twice = Model().fit(X, y, weight), Model().fit(X.iloc[repeated], y[repeated])
    assert_allclose(model.predict_proba(X), twice.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("Model", ALL)
@pytest.mark.parametrize("how", ["partial_fit", "merge"])
def test_parts_add_up_to_the_whole(rows, Model, how):
    X, y = rows
    parts = [slice(0, 100), slice(100, 110), slice(110, 400)]
    if how == "partial_fit":
        model = Model()
        for part in parts:
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    else:
        first, second, third = (Model().fit(X[part], y[part]) for part in parts)
        model = first.merge(second).merge(third)
    whole = Model().fit(X, y)
    assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert_array_equal(model.class_count_, whole.class_count_)


def test_parts_with_other_classes_and_categories(rng):
    X, y = make_frame(rng)
    y = y.astype("<U9")
    y[200:] = rng.choice(["maybe", "no"], 100)
    X.loc[250:, "word"] = "late"
    X["word"] = X["word"].astype(object)
    whole = MixedNB().fit(X, y)
    one, other = MixedNB().fit(X[:200], y[:200]), MixedNB().fit(X[200:], y[200:])
    for merged in (one.merge(other), other.merge(one)):
        assert merged.classes_.tolist() == ["maybe", "no", "yes"]
        assert_allclose(merged.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert one.classes_.tolist() == ["no", "yes"]
    stream = MixedNB().partial_fit(X[:200], y[:200], ["maybe", "no", "yes"]).partial_fit(X[200:], y[200:])
    assert_allclose(stream.predict_proba(X), whole.predict_proba(X), rtol=1e-9)


def test_a_stream_of_numbers_that_are_not_positions(rng):
    X, y = rng.choice([-1.5, 0.25, 7.0], (60, 2)), rng.integers(0, 2, 60)
    X[40:, 0] = 9.5
    stream = CategoricalNB().partial_fit(X[:40], y[:40], [0, 1]).partial_fit(X[40:], y[40:])
    assert_allclose(stream.predict_proba(X), CategoricalNB().fit(X, y).predict_proba(X))
    with pytest.raises(ValueError, match="must hold category indices, integers from 0 to"):
        CategoricalNB().partial_fit([[0], [1]], [0, 1], [0, 1]).partial_fit(X[:, :1], y)


def test_models_that_cannot_be_merged_raise(rows):
    X, y = rows
    model = CategoricalNB().fit(X, y)
    with pytest.raises(ValueError, match="other must be a fitted CategoricalNB; got GaussianNB"):
        model.merge(GaussianNB().fit(X, y))
    with pytest.raises(ValueError, match=r"other must have the \d columns of this CategoricalNB; it has \d"):
        model.merge(CategoricalNB().fit(X[:, 1:], y))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(str)})
    mixed = MixedNB().fit(table, y)
    with pytest.raises(
        ValueError, match="Column 'b' of other must hold categories, like the same column of this MixedNB; it holds num"
    ):
        mixed.merge(MixedNB().fit(table.assign(b=np.nan), y))
    with pytest.raises(ValueError, match="Column 0 of other must be named 'a', as in this MixedNB; got 'b'"):
        mixed.merge(MixedNB().fit(table[["b", "a"]], y))
    with pytest.raises(ValueError, match=r"other must have labels of the same type, either strings or numbers\."):
        model.merge(CategoricalNB().fit(X, y.astype(str)))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        CategoricalNB().partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must be the same as in the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="CategoricalNB requires y to be passed, but the target y is None"):
        model.partial_fit(X, None)
    binary = BernoulliNB(binarize=2).fit(X, y)
    with pytest.raises(
        ValueError, match=r"binarize must be the same in all calls of partial_fit and in models.*got 2\.0 and 0\.0"
    ):
        binary.merge(BernoulliNB().fit(X, y))
    with pytest.raises(
        ValueError, match=r"binarize must be the same in all calls of partial_fit and in models.*got 1\.0 and 2\.0"
    ):
        binary.set_params(binarize=1).partial_fit(X, y)
    assert_array_equal(binary.predict(X), BernoulliNB(binarize=2).fit(X, y).predict(X))


@pytest.mark.parametrize("Model", ALL)
def test_threads_change_nothing(rng, Model):
    X, y = rng.integers(0, 5, (60_000, 4)).astype(float), rng.integers(0, 2, 60_000)
    weight = rng.random(60_000)
    one, many = (Model(n_jobs=n_jobs).fit(X, y, weight) for n_jobs in (1, 3))
    assert_array_equal(one.predict_log_proba(X), many.predict_log_proba(X))


# The posterior --------------------------------------------------


def test_modes_are_estimates():
    X, y = [[0], [0], [1], [1], [1], [2]], [0, 0, 0, 1, 1, 1]
    model = CategoricalNB(alpha=2.0).fit(X, y)
    assert_allclose(np.exp(model.feature_log_prob_[0][0]), [4 / 9, 3 / 9, 2 / 9])
    assert_allclose(np.exp(model.map_estimator_.feature_log_prob_[0][0]), [3 / 6, 2 / 6, 1 / 6])
    assert_allclose(np.exp(model.ml_estimator_.feature_log_prob_[0][0]), [2 / 3, 1 / 3, 0])
    for mode in ("bayes", "map", "ml"):
        assert model.predict(X, mode=mode).tolist() == [0, 0, 1, 1, 1, 1]
    drawn = model.sample_posterior(1, random_state=3)[0]
    assert_array_equal(model.predict(X, mode="gibbs", random_state=3), drawn.predict(X))
    with pytest.raises(ValueError, match="mode must be one of 'bayes', 'map', 'ml', 'gibbs'; got 'best'"):
        model.predict(X, mode="best")


@pytest.mark.slow
def test_gibbs_errs_at_most_twice_as_often(rng):
    # Where the world is drawn from the prior: Haussler, Kearns & Schapire (1994)
    errors = []
    for _ in range(20):
        theta = rng.dirichlet([1, 1, 1], (2, 4))
        y = np.r_[0, 1, rng.integers(0, 2, 100)]
        X = (rng.random((102, 4, 1)) > theta[y].cumsum(axis=2)).sum(axis=2).clip(max=2)
        model = CategoricalNB(min_categories=3, class_prior=[0.5, 0.5]).fit(X[:12], y[:12])
        errors.append(fastens.estimate_errors(model, X[12:], y[12:]))
    bayes, gibbs = np.mean(errors, axis=0)
    assert bayes < gibbs <= 2 * bayes


@pytest.mark.slow
@pytest.mark.parametrize("Model", DISCRETE)
def test_draws_have_the_posterior_mean(rows, Model):
    X, y = rows[0][:40, :3], rows[1][:40]
    model = Model(alpha=0.7).fit(X, y)
    draws = model.sample_posterior(1000, random_state=0)
    cells = np.exp([draw._likelihoods[0].log_prob for draw in draws])
    assert_allclose(cells.mean(axis=0), np.exp(model._likelihoods[0].log_prob), atol=0.02)
    again = model.sample_posterior(2, random_state=0)[1]
    assert_array_equal(again.predict_proba(X), draws[1].predict_proba(X))


@pytest.mark.slow
def test_draws_of_gaussians(rng):
    X, y = np.concatenate([rng.standard_normal((30, 1)), 5 + 2 * rng.standard_normal((30, 1))]), np.repeat([0, 1], 30)
    model = GaussianNB(var_smoothing=0).fit(X, y)
    draws = model.sample_posterior(4000, random_state=0)
    means, variances = np.array([d.theta_ for d in draws]), np.array([d.var_ for d in draws])
    squares = model.var_ * 30
    assert_allclose(means.mean(axis=0), model.theta_, atol=0.05)
    assert_allclose(variances.mean(axis=0), squares / (29 - 2), rtol=0.05)
    assert_allclose(means.var(axis=0), squares / (29 - 2) / 30, rtol=0.1)


def test_evidence_needs_a_prior(rows):
    X, y = rows
    assert all(np.isfinite(Model().fit(X, y).log_evidence_) for Model in DISCRETE)
    for model in (CategoricalNB(smoothing="none"), GaussianNB(), MixedNB()):
        assert not hasattr(model.fit(X, y), "log_evidence_")
    with pytest.raises(ValueError, match="feature_prior must be None without pseudo-counts"):
        CategoricalNB(smoothing="none", feature_prior=0.5).fit(X, y)


def test_columns_of_noise_are_left_out(rng):
    y = rng.integers(0, 2, 500)
    X = np.column_stack([np.where(rng.random(500) < 0.8, y, 1 - y), rng.integers(0, 4, (500, 3))])
    model = CategoricalNB(feature_prior=0.5).fit(X, y)
    assert model.feature_posterior_[0] > 0.999
    assert (model.feature_posterior_[1:] < 0.1).all()
    kept = model.map_estimator_.feature_log_prob_
    assert_allclose(kept[1][0], kept[1][1])
    assert not np.allclose(kept[0][0], kept[0][1])


# Mixed --------------------------------------------------


def test_kinds_from_the_table(rng):
    X, y = make_frame(rng)
    model = MixedNB().fit(X, y)
    assert model.kinds_.tolist() == ["gaussian", "categorical", "categorical", "categorical", "gaussian"]
    same = MixedNB().fit(pl.from_pandas(X), y)
    assert_allclose(same.predict_proba(pl.from_pandas(X)), model.predict_proba(X))


def test_mixed_is_the_product_of_its_columns(rng):
    X, y = make_frame(rng)
    kinds = {"visits": "multinomial", "flag": "bernoulli"}
    model = MixedNB(kinds=kinds).fit(X, y)
    parts = [
        (GaussianNB(), X[["size"]]),
        (CategoricalNB(), X[["colour", "word"]]),
        (BernoulliNB(), X[["flag"]]),
        (MultinomialNB(), X[["visits"]]),
    ]
    joint = np.tile(model.class_log_prior_, (len(y), 1))
    for part, columns in parts:
        joint += part.fit(columns, y).predict_joint_log_proba(columns) - part.class_log_prior_
    assert_allclose(model.predict_joint_log_proba(X), joint, rtol=1e-10)
    as_list = MixedNB(kinds=["gaussian", "categorical", "categorical", "bernoulli", "multinomial"]).fit(X, y)
    assert_array_equal(as_list.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"nothing": "gaussian"}, "kinds must name columns of X; got 'nothing'"),
        ({"size": "normal"}, r"kinds\['size'\] must be one of .* got 'normal'"),
        (np.array("gaussian"), "kinds must be 'from_dtype' or a dict or list of kinds; got array"),
        (["gaussian"], "kinds must have one kind for each of the 5 columns; got 1"),
        ({"word": "gaussian"}, "Column 'word' must hold numbers"),
        ({"size": "multinomial"}, "column 'size' must hold finite numbers of at least 0"),
    ],
)
def test_kinds_that_do_not_fit(rng, kinds, message):
    with pytest.raises(ValueError, match=message):
        MixedNB(kinds=kinds).fit(*make_frame(rng))


def test_an_empty_list_of_pseudo_counts():
    with pytest.raises(
        ValueError, match="alpha must be a number or an array with one number for each of the 1 columns; got 0"
    ):
        CategoricalNB(alpha=[]).fit([[0], [1]], [0, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_are_doubles(dtype):
    X, y = np.array([[0.1], [0.3], [0.5], [7.0]], dtype=dtype), [0, 0, 1, 1]
    found = BernoulliNB(binarize=float(np.float32(0.3)) - 1e-9).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(found.feature_count_, [[1], [2]])
    assert not BernoulliNB(binarize=1e300).fit(X, y).feature_count_.any()


def test_bad_input(rows):
    X, y = rows
    with pytest.raises(ValueError, match="smoothing must be one of 'laplace'"):
        CategoricalNB(smoothing="more").fit(X, y)
    with pytest.raises(ValueError, match=r"Negative values in data .* column 2 .* got -3"):
        MultinomialNB().fit(np.where(np.arange(6) == 2, -3, X), y)
    with pytest.raises(ValueError, match="binarize must be at least 0 for a sparse X"):
        BernoulliNB(binarize=-1.0).fit(sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="sum of the priors should be 1"):
        GaussianNB(priors=[0.5, 0.1, 0.1]).fit(X, y)


# Files --------------------------------------------------


@pytest.mark.parametrize("Model", ALL)
@pytest.mark.parametrize("how", ["file", "pickle"])
def test_a_model_comes_back_as_it_was(rng, tmp_path, Model, how):
    X, y = make_frame(rng)
    X = {MixedNB: X, CategoricalNB: X.drop(columns="size")}.get(Model, X[["visits", "flag"]])
    model = Model().fit(X, y)
    if how == "file":
        model.save(tmp_path / "model", metadata={"of": "today"})
        same = fastens.load(tmp_path / "model")
        assert same.metadata_ == {"of": "today"}
    else:
        same = pickle.loads(pickle.dumps(model))
    assert_array_equal(same.predict_log_proba(X), model.predict_log_proba(X))
    later = X.copy()
    same.partial_fit(later, y)
    assert_allclose(same.predict_proba(X), model.merge(model).predict_proba(X), rtol=1e-9)


def test_a_file_that_does_not_fit_is_refused(rng, tmp_path):
    X, y = make_frame(rng)
    for spoil in ("counts", "sizes", "log_prob"):
        model = CategoricalNB().fit(X.drop(columns="size"), y)
        likelihood = model._likelihoods[0]
        setattr(likelihood, spoil, getattr(likelihood, spoil)[..., :-1])
        model.save(tmp_path / "model")
        with pytest.raises(ModelFileError, match="does not describe a CategoricalNB"):
            fastens.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("model", "n_free"),
    [
        (BernoulliNB(), 2 + 3 * 2),
        (BernoulliNB(fit_prior=False), 3 * 2),
        (BernoulliNB(class_prior=[0.2, 0.3, 0.5]), 3 * 2),
        (GaussianNB(priors=[0.2, 0.3, 0.5]), 2 * 3 * 2),
    ],
)
def test_a_given_prior_is_not_a_free_parameter(model, n_free, rng):
    X, y = rng.integers(0, 2, (30, 2)), np.arange(30) % 3
    model.fit(X, y)
    assert model.n_parameters_ == n_free
    assert model.aic(X, y) == pytest.approx(-2 * model.log_likelihood(X, y) + 2 * n_free)
