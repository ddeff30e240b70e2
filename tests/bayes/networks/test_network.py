"""The Bayesian network as an estimator: fit, missing values, structures, questions, files, pictures."""

from __future__ import annotations

import pickle
import warnings
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import fastens
from fastens import BayesianNetwork, CategoricalNB, ModelFileError
from fastens.bayes.counts.counting import CodedRows
from fastens.bayes.networks.inference import draw
from fastens.bayes.networks.structures import FamilyScores, ancestors, hill_climb
from fastens.bayes.networks.table_estimation import run_em, run_gradient_ascent
from reference import families as plain_families
from reference import networks as plain
from reference.network_models import FOLDER, random_network


@pytest.fixture(scope="module")
def asia():
    return BayesianNetwork.read_bif(FOLDER / "asia.bif", target="bronc")


@pytest.fixture(scope="module")
def rows(asia):
    frame = pd.DataFrame(asia.sample(3000, random_state=0), columns=asia.node_names_)
    return frame.drop(columns="bronc"), frame["bronc"]


@pytest.fixture
def holed(rows):
    X, y = rows
    return X.mask(np.random.default_rng(0).random(X.shape) < 0.2), y


# Tables --------------------------------------------------


@pytest.mark.parametrize("smoothing", ["laplace", "m", "kt", "bdeu", "none"])
def test_naive_bayes_is_a_network(rows, smoothing):
    X, y = rows
    parameters = {"smoothing": smoothing, "m": 3.0, "ess": 5.0}
    network = BayesianNetwork(dict.fromkeys(X.columns, "class"), **parameters).fit(X, y)
    naive = CategoricalNB(**parameters).fit(X, y)
    shares = np.array(list(network.query("class").values()))
    scores = naive.predict_joint_log_proba(X) - naive.class_log_prior_ + np.log(shares)
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert_allclose(network.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-10)


def test_tables_are_smoothed_shares(rows):
    X, y = rows
    model = BayesianNetwork({"dysp": ["either", "class"]}, smoothing="bdeu", ess=8).fit(X, y)
    counts = pd.crosstab([X["either"], y], X["dysp"]).to_numpy().reshape(2, 2, 2) + 1
    assert_allclose(model.tables_["dysp"], counts / counts.sum(axis=-1, keepdims=True))
    assert model.states_["dysp"] == ["no", "yes"]
    assert model.n_parameters_ == 4 + 7


def test_evidence_matches_the_scores(rows):
    X, y = rows
    for smoothing, score in (("bdeu", "bdeu"), ("laplace", "k2")):
        model = BayesianNetwork(smoothing=smoothing, criterion=score, ess=2).fit(X, y)
        codes, _ = model._code_rows(X, y)
        scores = FamilyScores(CodedRows(codes, model._network.sizes, None), score, ess=2)
        candidates = [(node, tuple(sorted(found))) for node, found in enumerate(model._network.parents)]
        assert model.log_evidence_ == pytest.approx(sum(scores.family_scores(candidates)), rel=1e-12)


def test_no_evidence_without_pseudo_counts(rows):
    X, y = (part.iloc[:50] for part in rows)
    for parameters in ({"smoothing": "none"}, {"smoothing": "laplace", "alpha": 0}):
        model = BayesianNetwork("tan", **parameters).fit(X, y)
        with pytest.raises(AttributeError, match="with smoothing"):
            model.log_evidence_  # noqa: B018


def test_weights_are_repetitions(rows, rng):
    X, y = (part.iloc[:400] for part in rows)
    X = X.mask(rng.random(X.shape) < 0.1)
    weight = rng.integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    structure = {"dysp": ["either", "class"], "xray": "either"}
    for parameters in ({"structure": structure, "tol": 1e-4}, {"structure": "hill-climb", "tol": 1e-4}):
        one = BayesianNetwork(**parameters).fit(X, y, sample_weight=weight)
        other = BayesianNetwork(**parameters).fit(X.iloc[repeated], y.iloc[repeated])
        assert one.edges_ == other.edges_
        assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-9)


def test_absent_values_are_unknown():
    X = pd.DataFrame({"a": ["x", "y", "z", "x"]})
    model = BayesianNetwork({"a": "class"}).fit(X, [0, 1, 0, 1], sample_weight=[1, 1, 0, 2])
    assert model.states_["a"] == ["x", "y"]
    alone = BayesianNetwork([]).fit(X, sample_weight=[1, 1, 0, 2])
    assert alone.query("a") == pytest.approx({"x": 4 / 6, "y": 2 / 6})


@pytest.mark.slow
def test_threads_change_nothing(holed):
    X, y = holed
    models = [BayesianNetwork("tan", n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    for one, many in zip(models[0].tables_.values(), models[1].tables_.values(), strict=True):
        assert_array_equal(one, many)
    assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_any_table(rows, make):
    X, y = rows
    structure = [(6, 5), (5, 4), ("class", 6)]
    given = make(X.to_numpy()) if make is np.asarray else make(X.to_dict("list"))
    model = BayesianNetwork(structure).fit(given, y.to_numpy())
    expected = BayesianNetwork(structure).fit(X, y)
    assert_array_equal(model.predict_proba(given), expected.predict_proba(X))


def test_an_unknown_value_is_as_if_missing(asia, rows):
    X = rows[0].iloc[:20].copy()
    X["dysp"] = "perhaps"
    missing = X.assign(dysp=None)
    assert_array_equal(asia.predict_proba(X), asia.predict_proba(missing))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_arrays_of_positions(rng, dtype):
    X = rng.integers(0, 4, (500, 3))
    y = (X[:, 0] + X[:, 1] > 3).astype(int)
    model = BayesianNetwork("tan").fit(X.astype(dtype), y)
    frame = BayesianNetwork("tan").fit(pd.DataFrame(X.astype(str)), y)
    assert model.states_["x0"] == [0, 1, 2, 3]
    strange = X.copy()
    strange[:50, 1] = 7
    assert_array_equal(
        model.predict_proba(strange.astype(dtype)), frame.predict_proba(pd.DataFrame(strange.astype(str)))
    )
    if np.dtype(dtype).kind == "f":
        holed = X.astype(dtype)
        holed[:50, 1], holed[50:80, 1], holed[80:90, 1], holed[90:95, 2] = np.nan, 0.5, -1, np.inf
        same = X.astype(str).astype(object)
        same[:90, 1] = same[90:95, 2] = None
        assert_array_equal(model.predict_proba(holed), frame.predict_proba(pd.DataFrame(same)))
    gaps = BayesianNetwork("tan").fit(2 * X.astype(dtype), y)
    assert gaps.states_["x0"] == [0, 2, 4, 6]
    assert_array_equal(gaps.predict_proba(2 * X.astype(dtype)), model.predict_proba(X.astype(dtype)))


def test_numbers_in_bins(rng):
    X = pd.DataFrame({"size": rng.random(2000), "few": rng.integers(0, 3, 2000), "word": rng.choice(["a", "b"], 2000)})
    X.loc[::7, "size"] = np.nan
    y = (X["size"].fillna(0) > 0.5).astype(int)
    model = BayesianNetwork(max_bins=4).fit(X, y)
    assert [len(model.states_[name]) for name in X.columns] == [4, 3, 2]
    assert model.states_["few"] == ["<= 0.5", "0.5 to 1.5", "> 1.5"]
    assert model.query("class", {"size": 0.99})[1] > 0.9  # a number stands for its bin
    assert model.query("class", {"size": 0.99}) == model.query("class", {"size": model.states_["size"][-1]})
    with pytest.raises(ValueError, match="must be one of its values"):
        model.query("class", {"size": "large"})
    far = pd.DataFrame({"size": [-5.0, 7.0], "few": [0, 9], "word": ["a", "c"]})
    assert model.predict(far).tolist() == [0, 1]
    weight = rng.integers(0, 3, 2000)
    one = BayesianNetwork(max_bins=4).fit(X, y, weight)
    other = BayesianNetwork(max_bins=4).fit(X.loc[X.index.repeat(weight)], y.repeat(weight))
    assert one.states_ == other.states_
    assert_allclose(one.predict_proba(X), other.predict_proba(X))


# Missing values --------------------------------------------------


@pytest.mark.parametrize("run", [run_em, run_gradient_ascent])
@pytest.mark.parametrize("pseudo", [0.0, 0.5])
def test_optimisers_rise_to_a_maximum(run, pseudo, rng):
    network = random_network(rng, 5)
    codes = np.stack([rng.integers(0, size + 1, 150) for size in network.sizes]).astype(np.uint8)
    weights = rng.random(150)
    rows = CodedRows(codes, network.sizes, weights)
    found = run(network, rows, [pseudo] * 5, max_iter=3000, tol=1e-13)
    assert (np.diff(found.history) >= -1e-9).all()
    assert found.history[-1] > found.history[0]
    # At the maximum the expected counts give back the tables.
    counts, value = plain.expected_counts(found.network, codes, weights)
    for count, table in zip(counts, found.network.tables, strict=True):
        mass = count + pseudo
        assert_allclose(mass / mass.sum(axis=-1, keepdims=True), table, atol=2e-4)
    extra = pseudo * sum(np.log(table).sum() for table in found.network.tables) if pseudo else 0
    assert found.history[-1] == pytest.approx(value + extra, rel=1e-10)


def test_one_step_of_em_matches_the_reference(rng):
    network = random_network(rng, 4)
    codes = np.stack([rng.integers(0, size + 1, 60) for size in network.sizes]).astype(np.uint8)
    found = run_em(network, CodedRows(codes, network.sizes, None), [0.0] * 4, max_iter=1, tol=0)
    counts, value = plain.expected_counts(network, codes, np.ones(60))
    assert found.history[0] == pytest.approx(value, rel=1e-12)
    for count, table in zip(counts, found.network.tables, strict=True):
        assert_allclose(table, count / count.sum(axis=-1, keepdims=True), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["em", "gradient"])
def test_missing_values_are_made_up_for(asia, rows, holed, missing):
    structure = asia.structure
    full = BayesianNetwork(structure, class_name="bronc").fit(*rows)
    model = BayesianNetwork(structure, class_name="bronc", missing=missing, tol=1e-5).fit(*holed)
    assert (np.diff(model.history_) > -1e-9).all()
    assert len(model.history_) == model.n_iter_ + 1
    assert model.log_likelihood(*holed) > BayesianNetwork([]).fit(*holed).log_likelihood(*holed) + 1000
    for name, table in model.tables_.items():
        if name not in ("dysp", "xray"):  # whose rare cells have too few rows
            assert_allclose(table, full.tables_[name], atol=0.06)


def test_em_that_is_cut_short_warns(holed):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps"):
        BayesianNetwork({"dysp": "either"}, max_iter=1, tol=0).fit(*holed)


def test_posteriors_of_rows_of_a_stream(rng):
    pa = pytest.importorskip("pyarrow")
    X = pd.DataFrame(rng.normal(size=(50, 3)), columns=["area", "b", "c"])
    model = BayesianNetwork(max_bins=4).fit(X)
    wanted = model.posterior("area", X)
    table = pa.Table.from_pandas(X)
    for rows in (table.to_reader(7), fastens.TableSource(table)):
        assert_array_equal(model.posterior("area", rows), wanted)


def test_hidden_variables(rng):
    # Three columns that a coin no column shows makes alike: the network finds the coin.
    coin = rng.random(4000) < 0.4
    X = np.where(rng.random((4000, 3)) < 0.1, ~coin[:, None], coin[:, None]).astype(int)
    model = BayesianNetwork(dict.fromkeys(["x0", "x1", "x2"], "coin"), hidden={"coin": 2}, random_state=0).fit(X)
    assert model.node_names_ == ["x0", "x1", "x2", "coin"]
    assert sorted(model.query("coin").values()) == pytest.approx([0.4, 0.6], abs=0.05)
    proba = model.posterior("coin", X)
    found = proba.argmax(axis=1) == coin
    assert max(found.mean(), 1 - found.mean()) > 0.95
    with pytest.raises(ValueError, match="structure must list the edges if there are hidden variables"):
        BayesianNetwork(hidden={"coin": 2}).fit(X)


# Structures --------------------------------------------------


@pytest.mark.parametrize("score", ["bic", "aic", "bdeu", "k2"])
def test_scores(rng, score, monkeypatch):
    codes = rng.integers(1, 4, (4, 300)).astype(np.uint8)
    sizes, weights = np.full(4, 3), rng.random(300)
    scores = FamilyScores(CodedRows(codes, sizes, weights), score, ess=2.0)
    monkeypatch.setattr("fastens.bayes.networks.structures.DENSE_CELLS", 4)
    sparse = FamilyScores(CodedRows(codes, sizes, weights), score, ess=2.0)
    for candidate in [(0, ()), (1, (0,)), (2, (0, 1, 3))]:
        child, parents = candidate
        counts = plain_families.family_counts(codes, sizes, [(*parents, child)], weights)[0].reshape(-1, 3)
        if score in ("bic", "aic"):
            shares = counts / np.where(counts.sum(axis=1, keepdims=True) > 0, counts.sum(axis=1, keepdims=True), 1)
            expected = (counts[counts > 0] * np.log(shares[counts > 0])).sum()
            expected -= {"bic": np.log(weights.sum()) / 2, "aic": 1}[score] * len(counts) * 2
        else:
            prior = 1.0 if score == "k2" else 2.0 / counts.size
            expected = (gammaln(counts + prior) - gammaln(prior)).sum()
            expected += (gammaln(3 * prior) - gammaln(3 * prior + counts.sum(axis=1))).sum()
        assert scores.family_scores([candidate]) == pytest.approx([expected], rel=1e-10)
        assert sparse.family_scores([candidate]) == pytest.approx([expected], rel=1e-10)
        assert scores.bound(candidate) >= expected


def brute_force(scores, n):
    """The greatest score of all structures, by all orders of the variables."""

    def best(child, before):
        return max(
            scores.family_scores((child, found) for k in range(len(before) + 1) for found in combinations(before, k))
        )

    return max(sum(best(v, tuple(sorted(o[:i]))) for i, v in enumerate(o)) for o in permutations(range(n)))


@pytest.mark.parametrize("score", ["bic", "bdeu"])
def test_hill_climbing_finds_the_best_of_four(score):
    reached = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        network = random_network(rng, 4)
        codes = (draw(network, 500, {}, rng)[0] + 1).astype(np.uint8)
        scores = FamilyScores(CodedRows(codes, network.sizes, None), score)
        top = brute_force(scores, 4)
        plainly = hill_climb(scores, 4)
        tabu = hill_climb(scores, 4, tabu=20)
        values = [sum(scores.family_scores((v, found) for v, found in enumerate(p))) for p in (plainly, tabu)]
        assert values[0] <= values[1] <= top + 1e-9
        reached += values[1] == pytest.approx(top, rel=1e-9)
        assert all(v not in ancestors(tabu, found) for v, found in enumerate(tabu))
    assert reached >= 9


def test_hill_climbing_finds_the_structure(asia):
    sample = asia.sample(20_000, random_state=1)
    rows = pd.DataFrame(sample, columns=asia.node_names_)
    model = BayesianNetwork(tabu=10, smoothing="none").fit(rows)
    found, true = ({frozenset(edge) for edge in edges} for edges in (model.edges_, asia.edges_))
    assert len(true & found) >= 6
    # A local top: the or of two diseases hides which of them matters.
    assert model.bic(rows) <= 1.001 * BayesianNetwork(asia.structure, smoothing="none").fit(rows).bic(rows)


def test_max_parents_holds(rng):
    X = rng.integers(0, 2, (500, 5))
    y = X.sum(axis=1) % 2
    assert max(map(len, BayesianNetwork(criterion="k2", max_parents=2, tabu=5).fit(X, y).parents_.values())) <= 2


@pytest.mark.slow
def test_a_tree_has_the_greatest_likelihood(rows):
    X, _ = rows
    X = X.iloc[:500, :4]
    model = BayesianNetwork("chow-liu", smoothing="none").fit(X)
    assert len(model.edges_) == 3
    best = model.log_likelihood(X)
    for parents in product(*[[None, *(p for p in X.columns if p != c)] for c in X.columns]):
        structure = {child: [parent] for child, parent in zip(X.columns, parents, strict=True) if parent}
        try:
            other = BayesianNetwork(structure, smoothing="none").fit(X).log_likelihood(X)
        except ValueError:  # a cycle
            continue
        assert other <= best + 1e-8


@pytest.mark.parametrize("structure", ["tan", "kdb"])
def test_structures_with_a_class_require_y(rows, structure):
    with pytest.raises(ValueError, match=f"structure='{structure}' requires y to be passed"):
        BayesianNetwork(structure).fit(rows[0])


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({"x0": "x1", "x1": "x0"}, "structure must not have a directed cycle; got one among"),
        ({"x0": "x9"}, "must name variables of the network.*'x9'"),
        ([("x0", "x1"), ("x0", "x1")], "structure must list each edge once, between two different variables"),
        ([("x0", "x0")], "structure must list each edge once, between two different variables"),
        (["x0x1"], "pairs"),
        ("best", "structure must be"),
    ],
)
def test_structures_that_are_none(structure, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(structure).fit([[0, 1], [1, 0]])


# Questions --------------------------------------------------


def test_questions(asia):
    joint = asia.query(["lung", "smoke"], {"dysp": "yes"})
    assert list(joint) == [("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")]
    assert sum(joint.values()) == pytest.approx(1)
    alone = asia.query("lung", {"dysp": "yes"})
    assert alone["yes"] == pytest.approx(joint["yes", "yes"] + joint["yes", "no"])
    values, log_probability = asia.most_probable({"dysp": "yes", "xray": "yes"})
    assert values["either"] == "yes"
    assert log_probability == pytest.approx(asia.log_probability({**values, "dysp": "yes", "xray": "yes"}))


def test_questions_that_are_none(asia):
    with pytest.raises(ValueError, match=r"variables must name variables of the network, .* got 'cough'"):
        asia.query("cough")
    with pytest.raises(ValueError, match=r"must be one of its values.*got 'maybe'"):
        asia.query("lung", {"dysp": "maybe"})
    with pytest.raises(ValueError, match="without evidence"):
        asia.query("lung", {"lung": "yes"})
    for ask in (lambda e: asia.query("xray", e), lambda e: asia.sample(3, e)):
        with pytest.raises(ValueError, match="has probability 0"):
            ask({"either": "no", "lung": "yes"})
    with pytest.raises(AttributeError, match="no class"):
        BayesianNetwork([]).fit([[0], [1]]).predict([[0]])


def test_draws(asia):
    drawn = pd.DataFrame(asia.sample(20_000, {"dysp": "yes"}, random_state=0), columns=asia.node_names_)
    assert (drawn["dysp"] == "yes").all()
    assert (drawn["lung"] == "yes").mean() == pytest.approx(0.10275922, abs=0.01)
    assert_array_equal(asia.sample(5, random_state=3), asia.sample(5, random_state=3))


def test_classes_are_in_order(asia, rows):
    assert asia.classes_.tolist() == ["no", "yes"]
    assert asia.query("bronc")["yes"] == pytest.approx(0.45)
    assert asia.score(*rows) > 0.8
    assert asia.predict_proba(rows[0]).sum(axis=1) == pytest.approx(np.ones(len(rows[1])))


def test_an_impossible_row_has_the_prior(asia, rows):
    X = rows[0].iloc[:1].assign(either="no", lung="yes")
    assert asia.score_samples(X).tolist() == [-np.inf]
    model = BayesianNetwork.from_tables(
        {"c": [0, 1], "x": [0, 1]}, {"x": ["c"]}, {"c": [0.3, 0.7], "x": [[1, 0], [1, 0]]}, target="c"
    )
    assert_allclose(model.predict_proba(pd.DataFrame({"x": [0, 1, None]})), [[0.3, 0.7]] * 3)


def test_modes_and_draws_of_tables(rows):
    X, y = rows
    model = BayesianNetwork("tan").fit(X, y)
    assert_allclose(model.ml_estimator_.tables_["class"], [(y == "no").mean(), (y == "yes").mean()])
    # Under pseudo-counts of 1 the peak of the posterior is the likelihood's.
    for one, other in zip(model.map_estimator_.tables_.values(), model.ml_estimator_.tables_.values(), strict=True):
        assert_allclose(one, other)
    draws = [draw.tables_["dysp"] for draw in model.sample_posterior(300, random_state=0)]
    assert_allclose(np.mean(draws, axis=0), model.tables_["dysp"], atol=0.06)
    for mode in ("bayes", "map", "ml", "gibbs"):
        assert (model.predict(X, mode=mode, random_state=0) == y).mean() > 0.75
    with pytest.raises(AttributeError, match="the network must be fitted to have a posterior of its tables; this"):
        _ = BayesianNetwork.read_bif(FOLDER / "asia.bif").map_estimator_


# Files and pictures --------------------------------------------------


def test_saved_and_loaded(rows, holed, asia, tmp_path):
    models = [
        BayesianNetwork("tan").fit(*rows),
        BayesianNetwork(asia.structure, class_name="bronc").fit(*holed),
        BayesianNetwork([("z", 0), ("z", 1), ("z", 4)], hidden={"z": 2}, random_state=1, tol=1e-3).fit(rows[0]),
        BayesianNetwork("tan", max_bins=2).fit(rows[0].assign(n=np.arange(3000) % 7), rows[1]),
        asia,
    ]
    for model in models:
        model.save(tmp_path / "net.fastens")
        loaded = fastens.load(tmp_path / "net.fastens")
        copied = pickle.loads(pickle.dumps(model))
        X = rows[0].assign(n=3) if model.n_features_in_ == 8 else rows[0]
        for other in (loaded, copied):
            assert_array_equal(other.score_samples(X), model.score_samples(X))
            assert other.edges_ == model.edges_
            assert other.states_ == model.states_
        assert hasattr(loaded, "classes_") == hasattr(model, "classes_")


def test_a_damaged_file_is_refused(rows, monkeypatch, tmp_path):
    model = BayesianNetwork("tan").fit(*rows)
    damages = {
        "parents": lambda array: array + 100,
        "n_parents": lambda array: array[::-1] + 1,
        "tables": lambda array: array[1:],
        "counts": lambda array: -array,
    }
    for name, damage in damages.items():
        arrays = model._fitted_arrays()
        monkeypatch.setattr(model, "_fitted_arrays", lambda a=arrays, n=name, d=damage: {**a, n: d(a[n])})
        model.save(tmp_path / "net.fastens")
        with pytest.raises(ModelFileError):
            fastens.load(tmp_path / "net.fastens")
        monkeypatch.undo()


def test_a_network_of_given_tables():
    parts = ({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]}, {"a": [0.3, 0.7], "b": [[0.5, 0.5], [0.1, 0.9]]})
    model = BayesianNetwork.from_tables(*parts, target="b")
    assert_allclose(model.predict_proba(pd.DataFrame({"a": [0, 1]})), [[0.5, 0.5], [0.1, 0.9]])
    for place, wrong, message in [
        (2, {"a": [0.3, 0.7]}, "tables must have one table for each variable"),
        (2, {"a": [0.3, 0.7], "b": [0.5, 0.5]}, r"'b' must have the shape \(2, 2\)"),
        (2, {"a": [0.3, 0.3], "b": parts[2]["b"]}, "must each sum to 1; one sums to 0.6"),
        (1, {"b": ["c"]}, "got 'c'"),
        (0, {"a": [0, 0], "b": [0, 1]}, "distinct"),
    ]:
        given = [*parts]
        given[place] = wrong
        with pytest.raises(ValueError, match=message):
            BayesianNetwork.from_tables(*given)
    with pytest.raises(ValueError, match="target must be one of the variables"):
        BayesianNetwork.from_tables(*parts, target="c")


def test_a_given_structure_can_be_fitted_again(asia, rows):
    model = clone(asia).fit(*rows)
    assert set(model.edges_) == set(asia.edges_)
    assert_allclose(model.predict_proba(rows[0]), asia.predict_proba(rows[0]), atol=0.2)


def test_picture(asia):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = asia.plot()
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    assert set(texts) == set(asia.node_names_)
    assert all(texts[parent][1] > texts[child][1] for parent, child in asia.edges_)
    labels = [patch.get_label() for patch in axes.patches]
    assert [label for label in labels if " -> " in label] == [f"{parent} -> {child}" for parent, child in asia.edges_]
    places = list(texts.values())
    assert len(set(places)) == len(places)


def test_picture_with_tables(asia):
    pytest.importorskip("matplotlib").use("Agg")
    axes = asia.plot(tables=True, max_rows=3)
    texts = [text.get_text() for text in axes.texts]
    table = texts[texts.index("dysp") + 1].splitlines()
    assert table[0].split("|")[0].split() == asia.parents_["dysp"]
    assert table[0].split("|")[1].split() == asia.states_["dysp"]
    shown = [[float(cell) for cell in line.split("|")[1].split()] for line in table[1:4]]
    assert_allclose(shown, asia.tables_["dysp"].reshape(4, 2)[:3], atol=0.005)
    assert table[4:] == ["... 1 more row"]
    with pytest.raises(ValueError, match="max_rows must be a whole number of at least 1; got 0"):
        asia.plot(tables=True, max_rows=0)
    with pytest.raises(ValueError, match="tables must be True or False; got 'all'"):
        asia.plot(tables="all")


def test_names_of_variables():
    with pytest.raises(ValueError, match="different names"):
        BayesianNetwork().fit(pd.DataFrame({"class": [0, 1, 0]}), [0, 1, 1])
    with pytest.raises(ValueError, match=r"is empty\. Leave it out, and name it in hidden instead\."):
        BayesianNetwork().fit(pd.DataFrame({"a": [0, 1], "b": [None, None]}))


def test_a_table_too_large(rng):
    X = np.arange(1000)[:, None] * np.ones((1, 4), dtype=int)
    with pytest.raises(ValueError, match="The table of 'x3' must have at most"):
        BayesianNetwork({"x3": ["x0", "x1", "x2"]}).fit(X)


def test_warns_of_fractions_taken_for_values(rng):
    X = rng.standard_normal((150, 2))
    with pytest.warns(UserWarning, match="column 'x0' has 150 distinct numbers, .* max_bins=8"):
        BayesianNetwork().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BayesianNetwork(max_bins=8).fit(X)
        BayesianNetwork().fit(np.arange(300).reshape(150, 2))


# Edges that are known, uncertain evidence and interventions --------------------------------------------------


def chain(rng, n_rows=600, missing=0.0):
    a = rng.integers(0, 2, n_rows)
    b = np.where(rng.random(n_rows) < 0.85, a, 1 - a)
    c = np.where(rng.random(n_rows) < 0.85, b, 1 - b)
    table = pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 3, n_rows)}).astype(object)
    return table.mask(rng.random(table.shape) < missing)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tabu", [0, 10])
@pytest.mark.parametrize("criterion", ["bic", "k2"])
def test_required_and_forbidden_edges(missing, tabu, criterion, tmp_path):
    table = chain(np.random.default_rng(0), missing=missing)
    weight = np.random.default_rng(1).integers(0, 3, len(table))
    required, forbidden = [("d", "a")], {"a": ["b", "c"], "b": "c", "c": "a"}
    made = {"tabu": tabu, "criterion": criterion}
    model = BayesianNetwork(required_edges=required, forbidden_edges=forbidden, **made).fit(table, sample_weight=weight)
    ruled_out = {("b", "a"), ("c", "a"), ("c", "b"), ("a", "c")}
    assert ("d", "a") in model.edges_
    assert {("a", "b"), ("b", "c")} <= set(model.edges_)
    assert not set(model.edges_) & ruled_out
    repeated = table.loc[np.repeat(table.index, weight)].reset_index(drop=True)
    same = BayesianNetwork(required_edges={"a": "d"}, forbidden_edges=list(ruled_out), **made).fit(repeated)
    assert same.edges_ == model.edges_
    everything = [(p, c) for p in "abcd" for c in "abcd" if p != c]
    assert BayesianNetwork(forbidden_edges=everything, **made).fit(table).edges_ == []
    model.save(tmp_path / "net")
    assert fastens.load(tmp_path / "net").edges_ == model.edges_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"required_edges": [("a", "b")], "forbidden_edges": [("a", "b")]}, "both contain 'a' -> 'b'"),
        ({"required_edges": [("a", "b"), ("b", "a")]}, "required_edges is invalid: .* must not have a directed cycle"),
        ({"forbidden_edges": [("a", "z")]}, "forbidden_edges is invalid: .* must name variables"),
        ({"required_edges": {"a": ["b", "c"]}, "max_parents": 1}, "max_parents must be at least 2, the required"),
        (
            {"required_edges": [("a", "b")], "structure": "chow-liu"},
            "must be None unless structure='hill-climb' or 'pc'",
        ),
        (
            {"required_edges": 3},
            "required_edges must be None or a dict that maps children to parents, or a list of edges",
        ),
    ],
)
def test_wrong_edges(options, message):
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(**options).fit(chain(np.random.default_rng(0), 50))


def test_virtual_evidence_and_interventions_by_value(tmp_path):
    net = BayesianNetwork.from_tables(
        {"rain": ["no", "yes"], "sprinkler": ["off", "on"], "grass": ["dry", "wet"]},
        {"sprinkler": ["rain"], "grass": ["rain", "sprinkler"]},
        {
            "rain": [0.8, 0.2],
            "sprinkler": [[0.6, 0.4], [0.99, 0.01]],
            "grass": [[[1.0, 0.0], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]],
        },
    )
    prior, wet = net.query("rain"), {grass: net.query("rain", {"grass": grass}) for grass in ("dry", "wet")}
    of_grass, report = net.query("grass"), {"wet": 0.7, "dry": 0.1}
    found = net.query("rain", {"grass": report})
    share = {grass: of_grass[grass] * report[grass] for grass in of_grass}
    expected = sum(share[grass] * wet[grass]["yes"] for grass in share) / sum(share.values())
    assert found["yes"] == pytest.approx(expected)
    assert net.log_probability({"grass": report}) == pytest.approx(np.log(sum(share.values())))
    assert net.query("rain", {"grass": {"wet": 0.7, "dry": 0.0}}) == pytest.approx(wet["wet"])
    assert net.query("grass", {"grass": report})["wet"] == pytest.approx(share["wet"] / sum(share.values()))
    drawn = net.sample(4000, {"grass": report}, random_state=0)
    assert (drawn[:, 0] == "yes").mean() == pytest.approx(expected, abs=0.03)
    changed = net.do({"sprinkler": "on"})
    assert changed.query("rain") == pytest.approx(prior)
    assert changed.query("sprinkler") == {"off": 0.0, "on": 1.0}
    assert changed.query("grass")["wet"] == pytest.approx(0.8 * 0.9 + 0.2 * 0.99)
    assert ("rain", "sprinkler") in net.edges_
    assert ("rain", "sprinkler") not in changed.edges_
    changed.save(tmp_path / "changed")
    assert fastens.load(tmp_path / "changed").query("grass") == changed.query("grass")
    assert net.do({}).query("rain") == prior
    for evidence, message in (
        ({"grass": {"wet": 1.0}}, "evidence of 'grass' must have a likelihood for each of"),
        ({"grass": {"wet": 1.0, "damp": 1.0}}, "evidence of 'grass' must have a likelihood for each of"),
        ({"grass": {"wet": -1.0, "dry": 1.0}}, "evidence of 'grass' must be a number at least 0; got -1"),
        ({"grass": {"wet": 0, "dry": 0}}, "evidence of 'grass' must have a positive likelihood"),
    ):
        with pytest.raises(ValueError, match=message):
            net.query("rain", evidence)
    with pytest.raises(ValueError, match="interventions must be values; got uncertain observations"):
        net.do({"grass": report})
    with pytest.raises(ValueError, match="interventions must be a dict of values by variable; got None"):
        net.do(None)
