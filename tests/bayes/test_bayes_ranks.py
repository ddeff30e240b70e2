"""Bayesian models on several ranks are those of one rank with the whole table, to the bit of the saved model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fastens import (
    AODEClassifier,
    BayesianNetwork,
    BayesTreeClassifier,
    BayesTreeRegressor,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    ExactTreeAverageClassifier,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    TANClassifier,
    TextClassifier,
)
from reference.rank_fits import BINARY, CLASSES, WEIGHTS, T, X, fit_on_ranks

WORDS = np.array(["ham", "spam", "egg", "tea", "jam", "none"])
TEXTS = np.array([" ".join(WORDS[np.nan_to_num(np.abs(row)).astype(int) % 6]) for row in X])
COUNTS = np.abs(np.nan_to_num(np.round(2 * X)))
CATEGORIES = np.column_stack([np.digitize(X[:, :3], [-1.0, 0.2]), np.nan_to_num(X[:, 4:])]).astype(int)
FRAME = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(
    word=np.where(np.isnan(X[:, 4]), None, np.char.add("w", X[:, 4].astype(str))), last=X[:, 5]
)
WHOLE = FRAME.fillna({"word": "none", "last": 0.0, **dict.fromkeys("abcd", 0.0)})[["word", "last", "a"]]
MODELS = {
    "gaussian": (GaussianNB, X, CLASSES),
    "bernoulli": (BernoulliNB, X, BINARY),
    "bernoulli of sparse rows": (BernoulliNB, sparse.csr_matrix(COUNTS), BINARY),
    "multinomial": (MultinomialNB, COUNTS, CLASSES),
    "multinomial of sparse rows": (MultinomialNB, sparse.csr_matrix(COUNTS), CLASSES),
    "complement": (ComplementNB, COUNTS, CLASSES),
    "categories": (lambda: CategoricalNB(feature_prior=0.5), CATEGORIES, CLASSES),
    "values that are no positions": (CategoricalNB, X[:, 4:] / 2 - 1, CLASSES),
    "several kinds": (lambda: MixedNB(kinds={"last": "categorical", "c": "bernoulli"}), FRAME, CLASSES),
    "tree": (lambda: TANClassifier(max_bins=5), FRAME, CLASSES),
    "one parent": (lambda: AODEClassifier(max_bins=5), FRAME, CLASSES),
    "two parents": (lambda: AODEClassifier(order=2, max_bins=3), X, BINARY),
    "network": (lambda: BayesianNetwork(max_bins=4), WHOLE, BINARY),
    "network of codes": (lambda: BayesianNetwork("kdb"), CATEGORIES, CLASSES),
    "network of a tree": (lambda: BayesianNetwork("tan", max_bins=4), WHOLE, BINARY),
    "network by em": (lambda: BayesianNetwork("chow-liu", max_bins=3, max_iter=3, tol=0.1), FRAME, BINARY),
    "network by independence": (lambda: BayesianNetwork("pc", max_bins=4), WHOLE, BINARY),
    "network of numbers": (
        lambda: BayesianNetwork(
            {"a": "class", "b": "a"}, continuous_features=["a", "b"], max_bins=3, max_iter=3, tol=1
        ),
        FRAME[["a", "b", "last"]],
        BINARY,
    ),
    "texts": (lambda: TextClassifier(ngram_range=(1, 2), min_df=9, max_features=20), TEXTS, CLASSES),
    "terms of texts": (
        lambda: TextClassifier(model="document-frequencies", max_df=0.7),
        pd.DataFrame({"text": TEXTS}),
        CLASSES,
    ),
    "prunings": (BayesTreeClassifier, X, CLASSES),
    "prunings of unseen rows": (lambda: BayesTreeClassifier(evidence="honest", random_state=3), X, BINARY),
    "prunings of numbers": (BayesTreeRegressor, X, T),
    "prunings of counts": (
        lambda: BayesTreeRegressor(criterion="poisson", splitter="random", evidence="honest", random_state=3),
        X,
        CLASSES,
    ),
    "all trees": (lambda: ExactTreeAverageClassifier(6), FRAME, CLASSES),
    "all trees on few answers": (lambda: ExactTreeAverageClassifier(4), X[:, 5:], BINARY),
    "hidden": (
        lambda: BayesianNetwork(
            {"a": "h", "last": ["h", "class"]}, hidden={"h": 2}, max_bins=3, max_iter=2, tol=9.0, random_state=0
        ),
        WHOLE[["a", "last"]],
        BINARY,
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the likelihood still rises")
@pytest.mark.parametrize(("size", "weights"), [(2, "whole"), (4, "fractional"), (5, None)])
@pytest.mark.parametrize("name", MODELS)
def test_saved_models_are_the_same(name, size, weights, tmp_path):
    make, table, y = MODELS[name]
    weight = WEIGHTS.get(weights)
    path = tmp_path / "model"
    make().fit(table, y, weight).save(path)
    expected = path.read_bytes()
    for model in fit_on_ranks(size, make, y, weight, table):
        model.save(path)
        assert path.read_bytes() == expected


def test_a_network_without_a_class(tmp_path):
    path = tmp_path / "model"
    BayesianNetwork().fit(CATEGORIES[:, :3]).save(path)
    expected = path.read_bytes()
    for model in fit_on_ranks(3, BayesianNetwork, None, table=CATEGORIES[:, :3]):
        model.save(path)
        assert path.read_bytes() == expected


def test_large_families_are_counted_over_all_ranks(tmp_path, monkeypatch):
    monkeypatch.setattr("fastens.bayes.networks.structures.DENSE_CELLS", 20)
    path = tmp_path / "model"
    BayesianNetwork().fit(CATEGORIES, CLASSES).save(path)
    expected = path.read_bytes()
    for model in fit_on_ranks(3, BayesianNetwork, CLASSES, table=CATEGORIES):
        model.save(path)
        assert path.read_bytes() == expected


@pytest.mark.parametrize("rows", [7, 300, 1000, 5999])
def test_moments_of_blocks_that_cross_ranks(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("fastens.bayes.naive.likelihoods._MOMENT_ROWS", rows)
    path = tmp_path / "model"
    GaussianNB().fit(X, CLASSES, WEIGHTS["whole"]).save(path)
    expected = path.read_bytes()
    for size in (2, 4, 5):
        for model in fit_on_ranks(size, GaussianNB, CLASSES, WEIGHTS["whole"]):
            model.save(path)
            assert path.read_bytes() == expected
