"""Continuous variables of networks against enumeration of multivariate normals, NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB

import fastens
from fastens import BayesianNetwork
from fastens.bayes.counts.counting import CodedRows
from fastens.bayes.networks import inference, pc
from fastens.bayes.networks.structures import FamilyScores
from reference import mixed_networks
from reference.network_models import random_mixed_network


def random_evidence(rng, network, n_known=3, virtual=False):
    evidence = {}
    for v in rng.permutation(len(network.names))[:n_known].tolist():
        if v in network.continuous:
            evidence[v] = (rng.normal(0, 3), rng.random() + 0.1) if virtual else float(rng.normal(0, 3))
        else:
            evidence[v] = rng.random(network.sizes[v]) if virtual else int(rng.integers(network.sizes[v]))
    return evidence


def with_noise(network, evidence):
    """Return the network with a variable for each noisy observation, and the evidence by variable."""
    noisy = [v for v, found in evidence.items() if isinstance(found, tuple)]
    places = {v: len(network.names) + i for i, v in enumerate(noisy)}
    known = {places.get(v, v): found[0] if v in places else found for v, found in evidence.items()}
    return network.with_observations({v: evidence[v][1] for v in noisy}), known


def as_rows(network, rows):
    """Rows of evidence as codes and numbers."""
    codes, values = np.zeros((2, len(network.names), len(rows)))
    for at, row in enumerate(rows):
        for v, found in row.items():
            codes[v, at], values[v, at] = (1, found) if v in network.continuous else (found + 1, 0)
    return codes.astype(np.uint8), values


@pytest.mark.parametrize("seed", range(25))
def test_queries(seed):
    rng = np.random.default_rng(seed)
    network = random_mixed_network(rng)
    network.check()
    for n_known in range(5):
        evidence = random_evidence(rng, network, n_known, virtual=bool(n_known % 2))
        observed = with_noise(network, evidence)
        rest = [v for v in range(6) if not isinstance(evidence.get(v), int | float)]
        discrete = [v for v in rest if v not in network.continuous]
        for variables in (discrete[:1], discrete[:2]):
            table, log_evidence = inference.query(observed[0], variables, observed[1])
            expected, density = mixed_networks.query(network, variables, evidence)
            np.testing.assert_allclose(table, expected, atol=1e-9)
            assert log_evidence == pytest.approx(np.log(density))
        numbers = [v for v in rest if v in network.continuous]
        for variables in (numbers[:1], numbers[-2:][::-1]):
            if variables:
                *mixture, log_evidence = inference.query_numbers(observed[0], variables, observed[1])
                mean, covariance = inference.mixture_moments(*(found[None] for found in mixture))
                expected, spread = mixed_networks.moments(network, variables, evidence)
                np.testing.assert_allclose(mean[0], expected, rtol=1e-7, atol=1e-8)
                np.testing.assert_allclose(covariance[0], spread, rtol=1e-6, atol=1e-8)
                density = mixed_networks.query(network, [], evidence)[1]
                assert log_evidence == pytest.approx(np.log(density))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_rows_with_missing_values(seed):
    rng = np.random.default_rng(seed)
    network = random_mixed_network(rng)
    rows = [random_evidence(rng, network, n_known) for n_known in range(7) for _ in range(3)]
    codes, values = as_rows(network, rows)
    expected = [np.log(mixed_networks.query(network, [], row)[1]) for row in rows]
    np.testing.assert_allclose(inference.log_likelihoods(network, codes, 1, values), expected, rtol=1e-9, atol=1e-9)
    for v in range(6):
        others = [{u: found for u, found in row.items() if u != v} for row in rows]
        if v in network.continuous:
            found = np.stack(inference.posterior_moments(network, v, codes, values), axis=1)
            expected = [np.concatenate(mixed_networks.moments(network, [v], row), axis=None) for row in others]
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        else:
            scores = inference.log_posteriors(network, v, codes, 1, values)
            found = np.exp(scores - scores.max(axis=1, keepdims=True))
            expected = [mixed_networks.query(network, [v], row)[0] for row in others]
            np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_most_probable_values(seed):
    rng = np.random.default_rng(seed)
    network = random_mixed_network(rng)
    evidence = random_evidence(rng, network, seed % 4, virtual=bool(seed % 2))
    best, numbers, log_density = inference.explain(*with_noise(network, evidence))
    cells = []
    for cell, p, mean, (rest, spread) in mixed_networks.given(network, evidence):
        peak = np.sqrt(np.linalg.det(2 * np.pi * spread)) if rest else 1.0
        cells.append((p / peak, cell, mean))
    density, cell, mean = max(cells, key=lambda found: found[0])
    assert log_density == pytest.approx(np.log(density))
    assert {v: found for v, found in best.items() if v not in network.continuous} == {
        v: cell[v] for v in range(6) if v not in network.continuous and not isinstance(evidence.get(v), int)
    }
    np.testing.assert_allclose(numbers[list(mean)], list(mean.values()), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_interventions_are_mutilated_networks(seed):
    rng = np.random.default_rng(seed)
    network = random_mixed_network(rng)
    numbers = sorted(network.continuous)
    done = {numbers[0]: 1.5, next(v for v in range(6) if v not in network.continuous): 0}
    found = network.intervene(done)
    nearly = network.intervene(done)  # a normal with a tiny variance instead of a constant, for the oracle
    nearly.regressions[numbers[0]][..., -1] = 1e-12
    evidence = {numbers[1]: 0.3}
    for v in range(6):
        if v in (numbers[0], numbers[1]):
            continue
        if v in network.continuous:
            *mixture, _ = inference.query_numbers(found, [v], evidence)
            mean, covariance = inference.mixture_moments(*(part[None] for part in mixture))
            expected, spread = mixed_networks.moments(nearly, [v], evidence)
            np.testing.assert_allclose([mean[0, 0], covariance[0, 0, 0]], [expected[0], spread[0, 0]], rtol=1e-5)
        else:
            expected, _ = mixed_networks.query(nearly, [v], evidence)
            np.testing.assert_allclose(inference.query(found, [v], evidence)[0], expected, atol=1e-6)
    *mixture, log_density = inference.query_numbers(found, [numbers[0]], {})
    assert mixture[0].sum() == pytest.approx(1)
    assert set(mixture[1].ravel()) == {1.5}
    assert not mixture[2].any()
    assert log_density == pytest.approx(0, abs=1e-12)
    assert inference.query(found, [], {numbers[0]: 1.5})[1] == pytest.approx(0, abs=1e-12)
    assert inference.query(found, [], {numbers[0]: 1.4})[1] == -np.inf
    drawn = inference.draw(found, 50, {}, rng)[1]
    assert (drawn[numbers[0]] == 1.5).all()
    assert drawn[numbers[1]].std() > 0


@pytest.mark.parametrize("observed", [None, 0.5, (0.5, 1.5)])
def test_samples_have_the_exact_distribution(observed):
    rng = np.random.default_rng(4)
    network = random_mixed_network(rng)
    numbers = sorted(network.continuous)
    discrete = next(v for v in range(6) if v not in network.continuous and network.sizes[v] > 1)
    evidence = {} if observed is None else {numbers[1]: observed}
    with_observation, known = with_noise(network, evidence)
    positions, values = inference.draw(with_observation, 40_000, known, rng)
    expected, _ = mixed_networks.query(network, [discrete], evidence)
    counts = np.bincount(positions[discrete], minlength=len(expected))
    assert stats.chisquare(counts, expected * 40_000).pvalue > 1e-4
    rest = [v for v in numbers if not isinstance(evidence.get(v), float)]
    mean, covariance = mixed_networks.moments(network, rest, evidence)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((values[rest].mean(axis=1) - mean) / scale, 0, atol=0.03)
    np.testing.assert_allclose(
        np.cov(values[rest]) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.06
    )


# Fits --------------------------------------------------


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 400)
    height = rng.normal(np.where(sex == "f", 165, 178), 7)
    weight = np.where(sex == "f", -60, -80) + np.where(sex == "f", 0.75, 0.9) * height + rng.normal(0, 5, 400)
    return pd.DataFrame({"sex": sex, "height": height, "weight": weight})


EDGES = {"height": ["sex"], "weight": ["height", "sex"]}


@pytest.mark.parametrize("weighted", [False, True])
def test_fits_are_regressions_within_cells(table, weighted):
    weight = np.random.default_rng(1).integers(1, 4, len(table)) if weighted else np.ones(len(table), int)
    model = BayesianNetwork(EDGES, continuous_features="from_dtype", smoothing="none")
    model.fit(table, sample_weight=weight if weighted else None)
    assert model.states_ == {"sex": ["f", "m"], "height": [], "weight": []}
    assert model.n_parameters_ == 1 + 4 + 6
    expected = 0.0
    for place, sex in enumerate(["f", "m"]):
        own, w = table[table.sex == sex], weight[table.sex == sex]
        fitted = LinearRegression().fit(own[["height"]], own.weight, w)
        residual = own.weight - fitted.predict(own[["height"]])
        variance = np.average(residual**2, weights=w)
        np.testing.assert_allclose(
            model.regressions_["weight"][place], [fitted.intercept_, fitted.coef_[0], variance], rtol=1e-8
        )
        mean = np.average(own.height, weights=w)
        spread = np.average((own.height - mean) ** 2, weights=w)
        np.testing.assert_allclose(model.regressions_["height"][place], [mean, spread], rtol=1e-8)
        logs = stats.norm(mean, np.sqrt(spread)).logpdf(own.height) + stats.norm(0, np.sqrt(variance)).logpdf(residual)
        expected += (w * (logs + np.log(w.sum() / weight.sum()))).sum()
    assert model.history_[0] == pytest.approx(expected)
    assert (weight * model.score_samples(table)).sum() == pytest.approx(expected)
    assert model.score(table, sample_weight=weight) == pytest.approx(expected / weight.sum())
    if weighted:
        again = BayesianNetwork(EDGES, continuous_features=["height", "weight"], smoothing="none")
        again.fit(table.loc[table.index.repeat(weight)])
        np.testing.assert_allclose(again.regressions_["weight"], model.regressions_["weight"], rtol=1e-9)


def test_smoothing_shrinks_variances_to_the_pooled_variance(table):
    few = table.iloc[[0, 1, 2, 3, 4, 5, 6, 7]].assign(sex=["f"] * 6 + ["m"] + ["x"])
    model = BayesianNetwork({"height": "sex"}, continuous_features=["height", "weight"], alpha=2.0).fit(few)
    own = few.height[:6]
    pooled = ((own - own.mean()) ** 2).sum() / 5
    expected = [
        [own.mean(), (pooled * 5 + 2 * pooled) / 8],
        [few.height[6], 2 * pooled / 3],
        [few.height[7], 2 * pooled / 3],
    ]
    np.testing.assert_allclose(model.regressions_["height"], expected)
    assert np.isfinite(model.score(few))
    constant = BayesianNetwork({}, continuous_features="from_dtype").fit(few.assign(height=3.0))
    assert np.isfinite(constant.score_samples(few.assign(height=3.0))).all()


def test_classifiers_equal_those_of_scikit_learn(table, tmp_path):
    X, y = table[["height", "weight"]], table["sex"]
    naive = BayesianNetwork({"height": "class", "weight": "class"}, continuous_features="from_dtype", smoothing="none")
    expected = GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(naive.fit(X, y).predict_proba(X), expected, atol=1e-9)
    full = BayesianNetwork(
        {"height": "class", "weight": ["class", "height"]}, continuous_features="from_dtype", smoothing="none"
    ).fit(X, y)
    quadratic = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    covariances = [np.cov(X[y == sex].T, bias=True) for sex in ["f", "m"]]
    logs = np.stack(
        [stats.multivariate_normal(quadratic.means_[k], covariances[k]).logpdf(X) + np.log(quadratic.priors_[k])
         for k in range(2)], axis=1,
    )  # fmt: skip
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    np.testing.assert_allclose(full.predict_proba(X), odds / odds.sum(axis=1, keepdims=True), atol=1e-9)
    assert (full.predict(X) == quadratic.predict(X)).mean() > 0.99
    assert full.score(X, y) >= LinearDiscriminantAnalysis().fit(X, y).score(X, y) - 0.02
    one = full.predict_proba(X.assign(height=np.nan))
    np.testing.assert_allclose(one, naive.predict_proba(X.assign(height=np.nan)), atol=1e-6)
    full.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), full.predict_proba(X))
    np.testing.assert_array_equal(loaded.regressions_["weight"], full.regressions_["weight"])
    done = full.do({"height": 170})
    done.save(tmp_path / "done")
    assert fastens.load(tmp_path / "done").query("weight").mean == done.query("weight").mean


def test_queries_by_name(table):
    model = BayesianNetwork(EDGES, continuous_features="from_dtype", smoothing="none").fit(table)
    assert model.query("weight").mean[0] == pytest.approx(table.weight.mean(), rel=1e-9)
    assert model.query("height").covariance[0, 0] == pytest.approx(table.height.var(ddof=0), rel=1e-9)
    tall = model.query("sex", {"height": 185})
    f, m = (
        stats.norm(mean, np.sqrt(variance)).pdf(185) * (table.sex == sex).mean()
        for sex, (mean, variance) in zip("fm", model.regressions_["height"], strict=True)
    )
    assert tall["m"] == pytest.approx(m / (f + m))
    assert model.log_probability({"height": 185}) == pytest.approx(np.log(f + m))
    done = model.do({"height": 185})
    assert done.query("sex")["m"] == pytest.approx((table.sex == "m").mean())
    shares = {sex: (table.sex == sex).mean() for sex in "fm"}
    by_sex = dict(zip("fm", model.regressions_["weight"], strict=True))
    expected = sum(shares[sex] * (by_sex[sex][0] + by_sex[sex][1] * 185) for sex in "fm")
    assert done.query("weight").mean[0] == pytest.approx(expected)
    moments = model.posterior("weight", table.assign(sex=None))
    exact = [model.query("weight", {"height": height}) for height in table.height[:5]]
    np.testing.assert_allclose(moments[:5, 0], [found.mean[0] for found in exact])
    np.testing.assert_allclose(moments[:5, 1], [found.covariance[0, 0] for found in exact])
    assert model.most_probable({"sex": "f"}).values["height"] == pytest.approx(model.regressions_["height"][0, 0])
    drawn = pd.DataFrame(model.sample(5, {"weight": 70.0}, random_state=0), columns=model.node_names_)
    assert drawn.weight.tolist() == [70.0] * 5
    assert drawn.height.nunique() == 5
    for bad, message in [
        ({"evidence": {"height": "tall"}}, "evidence for 'height' must be a finite number"),
        ({"evidence": {"height": {1: 2}}}, "or a dict of the mean and the std of a noisy observation; got {1: 2}"),
        ({"evidence": {"height": {"mean": "tall", "std": 1}}}, "or a dict of the mean and the std"),
        (
            {"evidence": {"height": {"mean": 180, "std": 0}}},
            "std of 'height' must be a number at least 1.8e-10 and at most 1e.100; got 0",
        ),
        ({"evidence": {"height": {"mean": 180, "std": np.inf}}}, "std of 'height' must be a number"),
        ({"evidence": {"height": {"mean": 180, "std": 1e300}}}, "at most 1e.100; got 1e.300"),
        ({"variables": ["sex", "weight"]}, "variables must be all discrete or all continuous"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.query(**{"variables": "sex", **bad})
    with pytest.raises(AttributeError, match="posterior"):
        model.sample_posterior(1)
    with pytest.raises(ValueError, match="must be discrete to be written as BIF"):
        model.write_bif("never.bif")


def test_noisy_observations(table):
    model = BayesianNetwork(EDGES, continuous_features="from_dtype", smoothing="none").fit(table)
    noisy = {"height": {"mean": 185, "std": 4}}
    densities = {
        sex: stats.norm(mean, np.sqrt(variance + 16)).pdf(185) * (table.sex == sex).mean()
        for sex, (mean, variance) in zip("fm", model.regressions_["height"], strict=True)
    }
    total = sum(densities.values())
    assert model.log_probability(noisy) == pytest.approx(np.log(total))
    assert model.query("sex", noisy)["m"] == pytest.approx(densities["m"] / total)
    _, (mean, variance) = model.regressions_["height"]
    tall = model.query("height", {"sex": "m", **noisy})
    assert tall.mean[0] == pytest.approx((mean / variance + 185 / 16) / (1 / variance + 1 / 16))
    assert tall.covariance[0, 0] == pytest.approx(1 / (1 / variance + 1 / 16))
    found = model.most_probable(noisy)
    assert list(found.values) == ["sex", "height", "weight"]
    drawn = pd.DataFrame(model.sample(4000, noisy, random_state=0), columns=model.node_names_)
    assert drawn.height.mean() == pytest.approx(model.query("height", noisy).mean[0], abs=0.3)
    assert (drawn.sex == "m").mean() == pytest.approx(densities["m"] / total, abs=0.03)
    exact, nearly = ({"height": value, "weight": 80} for value in (185, {"mean": 185, "std": 1e-9}))
    assert model.log_probability(nearly) == pytest.approx(model.log_probability(exact), abs=1e-6)
    assert model.query("sex", nearly)["m"] == pytest.approx(model.query("sex", exact)["m"], abs=1e-6)
    given = model.do({"height": 170})
    assert given.log_probability(noisy) == pytest.approx(stats.norm(170, 4).logpdf(185))
    with pytest.raises(ValueError, match="interventions must be values; got uncertain observations"):
        model.do(noisy)


def test_densities_of_nearly_constant_differences_are_exact():
    """The second time equals the first up to a millisecond, and both are large."""
    model = BayesianNetwork.from_tables(
        {"start": None, "stop": None}, {"stop": ["start"]}, {"start": [1.7e9, 1.0], "stop": [0.0, 1.0, 1e-6]}
    )
    expected = stats.norm(1.7e9, np.sqrt(1 + 1e-6)).logpdf(1.7e9 + 0.5)
    assert model.log_probability({"stop": 1.7e9 + 0.5}) == pytest.approx(expected, abs=1e-5)
    assert model.query("start", {"stop": 1.7e9 + 0.5}).mean[0] == pytest.approx(1.7e9 + 0.5, abs=1e-5)


def test_tables_by_hand():
    model = BayesianNetwork.from_tables(
        {"sun": ["no", "yes"], "warmth": None, "sales": None},
        {"warmth": ["sun"], "sales": ["warmth"]},
        {"sun": [0.4, 0.6], "warmth": [[15, 4], [24, 9]], "sales": [10, 2, 1]},
    )
    found = model.query("sales")
    assert found.mean[0] == pytest.approx(10 + 2 * (0.4 * 15 + 0.6 * 24))
    spread = 0.4 * 4 + 0.6 * 9 + 0.24 * 81
    assert found.covariance[0, 0] == pytest.approx(4 * spread + 1)
    assert model.query(["sales", "warmth"]).covariance[0, 1] == pytest.approx(2 * spread)
    assert model.regressions_["sales"].tolist() == [10, 2, 1]
    assert model.compelled_edges_ == [("sun", "warmth"), ("warmth", "sales")]
    for tables, message in [
        ({"warmth": [[15, 0], [24, 9]]}, "variances of 'warmth' must be greater than 0"),
        ({"warmth": [15, 4]}, "regressions of 'warmth' must be finite numbers"),
        ({"sales": 3}, "must hold an intercept, slopes and a variance"),
    ]:
        with pytest.raises(ValueError, match=message):
            BayesianNetwork.from_tables(
                {"sun": ["no", "yes"], "warmth": None, "sales": None},
                {"warmth": ["sun"], "sales": ["warmth"]},
                {"sun": [0.4, 0.6], "warmth": [[15, 4], [24, 9]], "sales": [10, 2, 1], **tables},
            )


# Missing values --------------------------------------------------


def naive_em(table, n_steps):
    """EM of x ~ N(m, s), y | x ~ N(a + b x, t), with values missing, by the joint normal of both."""
    mean, covariance = np.nanmean(table, axis=0), np.diag(np.nanvar(table, axis=0))
    for _ in range(n_steps):
        first, second = np.zeros(2), np.zeros((2, 2))
        for row in table:
            known = ~np.isnan(row)
            x, spread = np.where(known, row, mean), np.zeros((2, 2))
            if known.any() and not known.all():
                k, u = int(np.flatnonzero(known)[0]), int(np.flatnonzero(~known)[0])
                slope = covariance[u, k] / covariance[k, k]
                x[u] = mean[u] + slope * (row[k] - mean[k])
                spread[u, u] = covariance[u, u] - slope * covariance[u, k]
            elif not known.any():
                spread = covariance
            first, second = first + x, second + spread + np.outer(x, x)
        mean = first / len(table)
        covariance = second / len(table) - np.outer(mean, mean)
    return mean, covariance


@pytest.mark.slow
def test_em_finds_the_maximum_likelihood_with_missing_numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, 150)
    table = np.column_stack([x, 1 + 0.7 * x + rng.normal(0, 0.8, 150)])
    table[rng.random(table.shape) < 0.25] = np.nan
    table = table[~np.isnan(table).all(axis=1)]
    model = BayesianNetwork([(0, 1)], continuous_features="from_dtype", smoothing="none", tol=1e-13, max_iter=3000)
    model.fit(table)
    mean, covariance = naive_em(table, 400)
    intercept, slope, variance = model.regressions_["x1"]
    np.testing.assert_allclose(model.regressions_["x0"], [mean[0], covariance[0, 0]], rtol=1e-5)
    np.testing.assert_allclose(slope, covariance[0, 1] / covariance[0, 0], rtol=1e-4)
    np.testing.assert_allclose(intercept + slope * mean[0], mean[1], rtol=1e-5)
    np.testing.assert_allclose(variance + slope**2 * covariance[0, 0], covariance[1, 1], rtol=1e-5)
    assert (np.diff(model.history_) > -1e-8).all()
    assert model.history_[-1] == pytest.approx(model.score_samples(table).sum())


@pytest.mark.slow
def test_em_step_of_mixed_rows_has_exact_expected_moments():
    rng = np.random.default_rng(2)
    for _ in range(4):
        network = random_mixed_network(rng)
        rows = [random_evidence(rng, network, int(rng.integers(0, 6))) for _ in range(12)]
        codes, values = as_rows(network, rows)
        weights = rng.random(12)
        components = inference.find_components(network, inference.missing_mask(network, codes), prune=False)
        counts, _ = inference.expected_counts(network, components, codes, weights, values)
        for v, found in enumerate(counts):
            family = network.families[v]
            expected = np.zeros(found.shape)
            for row, weight in zip(rows, weights, strict=True):
                if set(family) <= set(row):
                    continue  # counted elsewhere
                total = mixed_networks.query(network, [], row)[1]
                for cell, p, mean, (rest, spread) in mixed_networks.given(network, row):
                    place = tuple(cell[u] for u in family)
                    if v not in network.continuous:
                        expected[place] += weight * p / total
                        continue
                    variables = [u for u in family if u in network.continuous]
                    z = np.array([1, *(mean.get(u, row.get(u)) for u in variables)])
                    second = np.outer(z, z)
                    for i, one in enumerate(variables, 1):
                        for j, other in enumerate(variables, 1):
                            if one in rest and other in rest:
                                second[i, j] += spread[rest.index(one), rest.index(other)]
                    expected[place] += weight * p / total * second
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_hidden_class_is_a_gaussian_mixture():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 1, (150, 2)), rng.normal(2, 0.7, (100, 2))])
    model = BayesianNetwork(
        {"x0": "z", "x1": "z"}, hidden={"z": 2}, continuous_features="from_dtype", smoothing="none", random_state=0,
        tol=1e-10, max_iter=2000,
    ).fit(X)  # fmt: skip
    other = GaussianMixture(2, covariance_type="diag", tol=1e-12, max_iter=2000, reg_covar=0, random_state=0).fit(X)
    assert model.score(X) == pytest.approx(other.score(X), rel=1e-6)


# Structures --------------------------------------------------


@pytest.mark.parametrize("structure", ["hill-climb", "pc"])
@pytest.mark.parametrize("missing", [False, True])
def test_learned_structures(structure, missing):
    rng = np.random.default_rng(0)
    a, b = rng.choice(list("uv"), 3000), rng.normal(0, 1, 3000)
    c = 1.5 * (a == "u") + b + rng.normal(0, 1, 3000)
    d = np.where(a == "u", 0.5, 2) * c + rng.normal(0, 1, 3000)
    table = pd.DataFrame({"d": d, "c": c, "b": b, "a": a, "e": rng.choice(list("xyz"), 3000)})
    if missing:
        table = table.mask(rng.random(table.shape) < 0.05)
    model = BayesianNetwork(structure, continuous_features="from_dtype", max_iter=5, tol=1, tabu=10).fit(table)
    assert set(model.edges_) == {("a", "c"), ("b", "c"), ("a", "d"), ("c", "d")}
    assert set(model.compelled_edges_) == set(model.edges_)
    ruled = BayesianNetwork(
        structure, continuous_features="from_dtype", max_iter=5, tol=1, forbidden_edges=[("b", "c")]
    ).fit(table)
    assert ("b", "c") not in ruled.edges_
    with pytest.raises(ValueError, match="a discrete variable must not have continuous parents; got 'b' -> 'a'"):
        BayesianNetwork(structure, continuous_features="from_dtype", required_edges=[("b", "a")]).fit(table)


@pytest.mark.parametrize(("score", "penalty"), [("bic", np.log(400) / 2), ("aic", 1.0)])
def test_scores_are_penalised_log_likelihoods(table, score, penalty):
    sex = (table.sex == "m").to_numpy()
    codes = np.stack([sex + 1, np.ones(400), np.ones(400)]).astype(np.uint8)
    values = np.stack([np.zeros(400), table.height, table.weight])
    rows = CodedRows(codes, np.array([2, 1, 1]), None, values=values, continuous=frozenset({1, 2}))
    fits = [np.polynomial.Polynomial.fit(values[1, sex == k], values[2, sex == k], 1) for k in (False, True)]
    squares = [((values[2, sex == k] - fits[k](values[1, sex == k])) ** 2).sum() for k in (False, True)]
    pooled, expected = sum(squares) / (400 - 4), 0.0
    for k in (False, True):
        n = (sex == k).sum()
        variance = (squares[k] + pooled) / (n + 1)  # one row of the prior
        expected -= n / 2 * np.log(2 * np.pi * variance) + squares[k] / (2 * variance)
    found = FamilyScores(rows, score).family_scores([(2, (0, 1))])[0]
    assert found == pytest.approx(expected - 6 * penalty, abs=1e-6)


def test_partial_correlations_agree_with_pc_of_normal_variables():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(500, 3))
    x[:, 2] += x[:, 0]
    rows = CodedRows(
        np.ones((3, 500), np.uint8), np.ones(3, np.int64), None, 1, values=x.T.copy(), continuous=frozenset(range(3))
    )
    found = pc.p_values(rows, [(0, 1, ()), (0, 2, (1,)), (1, 2, (0,))], "g2")
    r = np.corrcoef(x[:, 0], x[:, 1])[0, 1]
    assert found[0] == pytest.approx(stats.chi2.sf(-500 * np.log(1 - r**2), 1), rel=0.02)
    precision = np.linalg.inv(np.corrcoef(x.T))
    partial = -precision[1, 2] / np.sqrt(precision[1, 1] * precision[2, 2])
    assert found[2] == pytest.approx(stats.chi2.sf(-500 * np.log(1 - partial**2), 1), rel=0.02)
    assert found[1] < 1e-10


def test_parameters_of_continuous_features(table):
    mixed = table.assign(grade=np.arange(len(table)) % 3)
    model = BayesianNetwork({"height": ["sex", "grade"]}, continuous_features=["height", 2]).fit(mixed)
    assert model.states_["grade"] == [0, 1, 2]
    assert model.states_["weight"] == []
    binned = BayesianNetwork({"height": "weight"}, continuous_features=["height"], max_bins=3).fit(table)
    assert len(binned.states_["weight"]) == 3
    assert binned.regressions_["height"].shape == (3, 2)
    assert np.isfinite(binned.score(table))
    for made, message in [
        ({"continuous_features": ["age"]}, "continuous_features"),
        ({"continuous_features": ["sex"]}, "Column 'sex' must hold numbers"),
        ({"continuous_features": ["sex"], "max_bins": 4}, "continuous_features must be numeric columns; got 'sex'"),
        ({"structure": "tan"}, "structure must be one of"),
        ({"criterion": "k2"}, "criterion must be one of"),
        ({"missing": "gradient"}, "missing must be one of"),
        ({"structure": {"sex": "height"}}, "a discrete variable must not have continuous parents"),
        ({"structure": {"height": "sex"}, "start": {"height": [1]}}, "start must name variables"),
    ]:
        with pytest.raises(ValueError, match=message):
            BayesianNetwork(**{"continuous_features": "from_dtype", **made}).fit(table)
    with pytest.raises(ValueError, match="finite"):
        model.score(mixed.assign(height=np.inf))
    with pytest.raises(ValueError, match=r"finite numbers up to 1e\+100; got .*e\+17"):
        BayesianNetwork({}, continuous_features=["height"]).fit(mixed.assign(height=1e170 * mixed["height"]))
    listed = BayesianNetwork({}, continuous_features=[1]).fit([["a", 1.5], ["b", 2.5], ["a", 2.0]])
    assert listed.states_ == {"x0": ["a", "b"], "x1": []}
    assert listed.query("x1").mean[0] == pytest.approx(2)
