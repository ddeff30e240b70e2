"""Digests of small models of every estimator, loss and criterion, and of what they predict.

Those of bits.txt hold on every processor. A change that means to change models writes the file anew, and its diff shows
which ones it changes: python tests/reference/bits.py > tests/reference/bits.txt
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from fastens.engine.losses.loss_names import REGRESSION
from fastens.modelfile.storage import load

sys.path.insert(0, str(Path(__file__).parents[1]))
from fastens import GradientBoostingRanker
from reference.public_estimators import CLASSES, OneQueryRanker, make, table_for

RESULTS = ("predict_proba", "predict", "decision_function", "score_samples", "transform")
# The first's methods take no table; what is stacked is combined by LAPACK, whose results depend on the processor.
WITHOUT = {"FiniteHypothesisLearner", "StackingClassifier", "StackingRegressor"}
SMALL = {"n_estimators": 5, "random_state": 0}


def tables():
    """Columns of few and of many values, targets, and weights with zeros; no function that is rounded by machine."""
    rng = np.random.default_rng(0)
    X = np.round(rng.random((300, 6)) * 40) / 8
    X[:, 5] = rng.random(300)
    X[::17, 1] = np.nan
    numbers = X[:, 0] * X[:, 2] - X[:, 3] + np.round(rng.random(300) * 4)
    return X, numbers, np.round(rng.random(300) * 3)


def seed(name):
    """The seed of chance, where there is some."""
    return {key: value for key, value in small(name).items() if key == "random_state"}


def losses_and_modes(X, numbers, classes):
    """Name, what is special, target, table and parameters."""
    positive = numbers - numbers.min() + 1
    for loss in REGRESSION:
        level = {"quantile": 0.3} if loss in ("quantile", "pinball", "expectile") else {}
        target = positive / positive.max() if "cross" in loss else positive
        target = np.floor(positive) if loss in ("negative_binomial", "zero_inflated_poisson") else target
        target = positive / (positive.max() + 1) if loss == "beta" else target
        yield "GradientBoostingRegressor", loss, target, X, {"loss": loss, **level, **SMALL}
    for loss, y in (
        ("log_loss", classes > 0),
        ("exponential", classes > 0),
        ("one_vs_rest", classes),
        ("ordinal", classes),
    ):
        yield "GradientBoostingClassifier", loss, y, X, {"loss": loss, **SMALL}
    yield "GradientBoostingRegressor", "dart", numbers, X, {"boosting": "dart", **SMALL}
    yield "GradientBoostingRegressor", "linear leaves", numbers, X, {"linear_leaves": True, **SMALL}


def trees(X, numbers, classes):
    """The same of forests, single trees and AdaBoost: criteria and algorithms."""
    whole_numbers = np.floor(numbers - numbers.min() + 1)
    of_classes = ("RandomForestClassifier", "ExtraTreesClassifier", "BayesTreeClassifier", "DecisionTreeClassifier")
    of_numbers = ("RandomForestRegressor", "ExtraTreesRegressor", "DecisionTreeRegressor")
    for criterion in ("gini", "entropy"):
        for name in of_classes:
            yield name, criterion, classes, X, {"criterion": criterion, **small(name)}
    for criterion in ("squared_error", "absolute_error", "poisson"):
        for name in of_numbers:
            yield name, criterion, whole_numbers, X, {"criterion": criterion, **small(name)}
    for algorithm in ("discrete", "real", "logit", "m1"):
        yield "AdaBoostClassifier", algorithm, classes, X, {"algorithm": algorithm, **SMALL}
    for loss in ("linear", "square", "exponential"):
        yield "AdaBoostRegressor", loss, numbers, X, {"loss": loss, **SMALL}


def small(name):
    """Those of `SMALL` that an estimator has."""
    return {key: value for key, value in SMALL.items() if key in make(name).get_params()}


def bayes(X, classes):
    """The same of naive Bayes and networks."""
    whole = np.nan_to_num(X)
    for name in ("MultinomialNB", "ComplementNB", "CategoricalNB", "TANClassifier", "AODEClassifier"):
        yield name, "weighted counts", classes, np.floor(whole), {}
    for name in ("GaussianNB", "MixedNB", "BayesTreeClassifier"):
        yield name, "weighted", classes, whole, small(name)
    for score in ("bic", "aic", "bdeu", "k2"):
        yield "BayesianNetwork", score, classes, np.floor(whole) % 3, {"criterion": score}


def cases():
    """Of each name a function that makes the estimator, and the arguments of its fit."""
    X, numbers, weight = tables()
    classes = np.digitize(numbers, [0, 4])
    names = sorted(CLASSES.keys() - WITHOUT)
    found = {name: (lambda name=name: make(name, **seed(name)), table_for(name)) for name in names}
    special = [*losses_and_modes(X, numbers, classes), *trees(X, numbers, classes), *bayes(X, classes)]
    for name, label, y, table, parameters in special:
        maker = partial(make, name, **parameters)
        found[f"{name} {label}"] = (maker, (table, y) if name == "BayesianNetwork" else (table, y, weight))
    return found


def add_array(digest, name, values):
    """Of name, shape, type and bytes."""
    values = np.ascontiguousarray(values.toarray() if hasattr(values, "toarray") else values)
    digest.update(f"{name} {values.dtype.str} {values.shape}".encode() + values.tobytes())


def digests(make_model, arguments):
    """One of what a model's file holds, one of what the model says of the rows that it was fitted to."""
    model = make_model().fit(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, OneQueryRanker):
            model.__class__ = GradientBoostingRanker  # files hold only classes of fastens
        model.save(Path(folder, "model"), allow_pickle=True)
        kind, arrays, meta = load(Path(folder, "model"))
    learned, said = hashlib.sha256(json.dumps([kind, meta]).encode()), hashlib.sha256()
    for name, array in arrays.items():
        add_array(learned, name, array)
    for name in RESULTS:
        if hasattr(model, name) and arguments[0] is not None:
            add_array(said, name, getattr(model, name)(arguments[0]))
    return [learned.hexdigest()[:16], said.hexdigest()[:16]]


def lines():
    """A line for each case: its name, the digest of the model and that of its predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [" ".join([*name.split(), *digests(*case)]) for name, case in cases().items()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
