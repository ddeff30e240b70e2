"""The parameters that the naive Bayes classifiers share: what they may be, and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fastens.bayes.counts.dirichlet import SMOOTHING_RULES, Smoothing
from fastens.checked_parameters import with_parameters
from fastens.docstrings import WEIGHT_TYPE_DOCS, entries
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, one_of, real


def _is_vector_of_numbers(value: Any) -> bool:
    return np.ndim(value) == 1 and np.asarray(value).dtype.kind in "biuf"


PRIOR = NONE | Rule("an array of probabilities, one for each class", _is_vector_of_numbers)
COMMON_RULES = {"fit_prior": FLAG, "class_prior": PRIOR, "n_jobs": ANYTHING}
FINITE = Rule("a finite number", real(-np.inf).holds)
UNSEEN = one_of("ignore", "smooth", "error")

DOCS = WEIGHT_TYPE_DOCS | entries("""\
alpha : float or array of shape (n_features,)
    Pseudo-count with smoothing="laplace".
fit_prior : bool
    Learn the prior of the classes from the rows; otherwise it is uniform.
class_prior : array of shape (n_classes,) or None
    Prior of the classes.
smoothing : {"laplace", "m", "kt", "bdeu", "none"}
    The pseudo-counts of the Dirichlet priors, each of r values for each of q groups: `alpha`; `m` / r; 1/2;
    `ess` / (r q); 0. For a column of r categories, q is the number of classes, times the categories of the column's
    parent where it has one; 1 where it does not depend on the class.
m : float
    With smoothing="m": imagined rows, or events, of each group (the m-estimate with a uniform prior).
ess : float
    With smoothing="bdeu": imagined rows, or events, of all groups together, the equivalent sample size.
binarize : float or None
    Values of a binary column above it count as 1; None is 0.
var_smoothing : float
    This share of the largest variance of a column of numbers is added to all their variances.
max_bins : int
    Most bins of a column of numbers: one for each distinct value, or quantiles where there are more. Bins are those of
    the first rows. The default was chosen on 12 tables: see docs/networks.md.
categorical_features : "from_dtype", "all", array or None
    Columns of categories: by their type, all, a mask, indices or names, or none. The others hold numbers.
unseen : {"ignore", "smooth", "error"}
    A category that `fit` did not see: treated as missing, given the probability of one with count 0, or ValueError.
feature_prior : float or None
    Prior probability that a column of categories depends on the class. With it, predictions are averages over the
    models of all subsets of these columns, each weighted by its posterior probability.
n_jobs : int or None
    Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them; results do not depend on it.
classes_ : array of shape (n_classes,)
    The labels, sorted.
class_count_, class_log_prior_ : arrays of shape (n_classes,)
    Rows of each class, and the log of its prior.
n_categories_ : array of shape (n_features,)
    Categories, or bins, of each column.
bin_limits_ : list of n_features arrays or None
    The upper ends of the bins of a column of numbers, but for the last.
log_evidence_ : float
    Log probability of the columns given the classes, the parameters averaged out; only where their priors are proper.
n_features_in_ : int
    Number of columns.
feature_names_in_ : array of shape (n_features_in_,)
    Their names, where they have some.
""")


@with_parameters
class SmoothingParameters:
    """Pseudo-counts, and the prior of the classes."""

    _parameter_rules: ClassVar[Mapping[str, Rule]] = {**COMMON_RULES, **SMOOTHING_RULES}

    alpha: Any = 1.0
    fit_prior: bool = True
    class_prior: Any = None
    smoothing: str = "laplace"
    m: float = 1.0
    ess: float = 1.0
    n_jobs: int | None = None


def check_alpha(alpha: Any, n_features: int) -> Any:
    """The pseudo-count, or an array of one for each column."""
    if np.ndim(alpha) and len(alpha) != n_features:
        raise ValueError(f"alpha must be a number or have one for each of the {n_features} columns; got {len(alpha)}.")
    return alpha


def smoothing_of(model: Any) -> Smoothing:
    """The smoothing that a model's parameters describe."""
    return Smoothing(model.smoothing, check_alpha(model.alpha, model.n_features_in_), model.m, model.ess)
