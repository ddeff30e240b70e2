"""The parameters that all boosting estimators share: what they may be, and what their docstrings say of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.checked_parameters import with_parameters
from fastens.docstrings import entries
from fastens.engine.losses.loss_names import is_custom
from fastens.options import Categories, Dart, EarlyStopping, Goss, Growth, LinearLeaves, Mvs, record
from fastens.parameters import ANYTHING, FLAG, NONE, Need, Rule, instance, one_of, real, whole

CALLBACKS = Rule(
    "a list of callables", lambda value: isinstance(value, list | tuple) and all(callable(each) for each in value)
)
NUMBER_OF_FEATURES = whole(1) | real(0, 1, open_low=True) | one_of("sqrt", "log2", None)


@with_parameters
class BoostingParameters:
    """The parameters that all boosting estimators share."""

    n_estimators: int = 100
    learning_rate: float = 0.1
    max_leaf_nodes: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    l2_regularization: float = 1.0
    split_penalty: float | None = None
    max_bins: int = 255
    max_features: int | float | str | None = 1.0
    max_features_per_tree: int | float | str | None = 1.0
    feature_weights: Any = None
    subsample: float = 1.0
    sampling: str | Goss | Mvs = "uniform"
    boosting: str | Dart = "gbdt"
    linear_leaves: bool | LinearLeaves = False
    growth: Growth | None = None
    monotonic_cst: Any = None
    interaction_cst: Any = None
    categorical_features: Any = "from_dtype"
    categories: Categories | None = None
    early_stopping: bool | str | EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    oob_score: bool = False
    callbacks: Any = None
    warm_start: bool = False
    verbose: int | bool | str = 0
    random_state: Any = None
    n_jobs: int | None = None


CUSTOM = Rule("a function or object that gives derivatives", is_custom)
RULES = {
    "n_estimators": whole(1),
    "learning_rate": real(0, 1e30, open_low=True),
    "max_leaf_nodes": whole(2) | NONE,
    "max_depth": whole(1) | NONE,
    "min_samples_leaf": whole(1),
    "l2_regularization": real(0),
    "split_penalty": real(0) | NONE,
    "max_bins": whole(2, 65_535),
    "max_features": NUMBER_OF_FEATURES,
    "max_features_per_tree": NUMBER_OF_FEATURES,
    "feature_weights": ANYTHING,
    "subsample": real(0, 1, open_low=True),
    "sampling": one_of("uniform", "goss", "mvs") | record(Goss, Mvs),
    "boosting": one_of("gbdt", "dart") | record(Dart),
    "linear_leaves": FLAG | record(LinearLeaves),
    "growth": NONE | record(Growth),
    "monotonic_cst": ANYTHING,
    "interaction_cst": ANYTHING,
    "categorical_features": ANYTHING,
    "categories": NONE | record(Categories),
    "early_stopping": FLAG | one_of("auto") | record(EarlyStopping),
    "validation_fraction": real(0, 1, open_low=True, open_high=True),
    "n_iter_no_change": whole(1),
    "tol": real(0),
    "oob_score": FLAG,
    "callbacks": CALLBACKS | NONE,
    "warm_start": FLAG,
    "verbose": whole(0) | FLAG | one_of("bar"),
    "random_state": whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE,
    "n_jobs": ANYTHING,
}

# Of the estimators that have them apart from a record.
CATEGORY_RULES = {
    "categorical_encoding": one_of("auto", "partition", "target", "ordered"),
    "categorical_missing": one_of("missing", "category"),
}

_EARLY = Need("early_stopping", "early_stopping is True or 'auto'", bool)
# What is read only with other parameters.
NEEDS: dict[str, tuple[Need, ...]] = {
    "validation_fraction": (
        Need("early_stopping", "early_stopping is True", lambda value: not isinstance(value, str) and bool(value)),
        Need(
            "early_stopping",
            "early_stopping has no validation splitter",
            lambda value: getattr(value, "validation", None) is None,
        ),
    ),
    "n_iter_no_change": (_EARLY,),
    "tol": (_EARLY,),
}
# What is read only where there are rows to validate on.
OF_VALIDATION = ("n_iter_no_change", "tol")

DOCS = entries("""\
n_estimators : int
    Number of rounds.
learning_rate : float
    Factor of every leaf value.
max_leaf_nodes : int or None
    Most leaves of a tree, which grows best-first; None grows level by level without that limit.
max_depth : int or None
    Most splits between the root and a leaf.
min_samples_leaf : int
    Fewest rows in a leaf, whatever their weights.
l2_regularization : float
    Added to the sum of hessians of a leaf; where the mean weight of the rows is below 1, times that mean.
split_penalty : float or None
    A grown tree is pruned to where its gain, less this for each split, is greatest (minimal cost-complexity
    pruning), in units of the noise: the variance of the gradients within its leaves over the mean hessian. 2 is
    Akaike's criterion with an estimated dispersion (Burnham & Anderson 2002, section 2.5); 0 keeps all splits.
    None: 2, or 0 where gradients do not tell the noise: for absolute errors, quantiles, Huber's loss and ranking.
max_bins : int
    Most bins of a feature, up to 65 535. A feature with no more distinct values keeps every one of them; missing
    values have a bin of their own besides.
max_features : int, float, "sqrt", "log2" or None
    Number, or share, of the features drawn for each split; None for all.
max_features_per_tree : int, float, "sqrt", "log2" or None
    The same for each tree; `max_features` draws from those.
feature_weights : array of shape (n_features,), dict by name, or None
    Chances of the features where some are drawn (`max_features`, `max_features_per_tree`); 1 for those that a dict
    leaves out. A feature of weight 0 is in no tree.
subsample : float
    Share of the rows drawn for each round.
sampling : "uniform", "goss", "mvs", Goss or Mvs
    How rows are drawn: each with the same chance; all with large gradients, and some of the others (`Goss`); or
    each with a chance that grows with its gradient (`Mvs`).
boosting : "gbdt", "dart" or Dart
    Whether each round corrects all trees before it, or leaves some of them out, so that no few of them decide
    (`Dart`).
linear_leaves : bool or LinearLeaves
    Whether leaves are linear models of the numeric features on their paths (`LinearLeaves`), where none of these
    is missing; values outside the range of a leaf's training rows count as its ends. Several targets have trees of
    their own. Lines keep to `monotonic_cst` and `max_delta_step`. Not with losses without a hessian.
growth : Growth or None
    Rarely needed rules of how trees grow, such as `Growth(min_child_weight=1.0)`.
monotonic_cst : array of shape (n_features,), dict by name, or None
    1 where predictions must not fall as the feature rises, -1 where they must not rise, 0 elsewhere. Not for
    categorical features, nor for more than two classes. With several targets it holds for each of them.
interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None
    Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
    in no group are one more group.
categorical_features : "from_dtype", list of names or indices, mask, or None
    Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
categories : Categories or None
    How trees see categorical columns, such as `Categories(encoding="partition")`.
early_stopping : bool, "auto" or EarlyStopping
    Stop when the validation loss no longer falls, and keep the rounds up to its lowest point. "auto": where `fit`
    gets X_val. A record says what is measured on which rows (`EarlyStopping`).
validation_fraction : float
    Share of the rows kept for validation where early_stopping=True and `fit` gets no X_val.
n_iter_no_change : int
    Rounds without improvement before stopping.
tol : float
    What counts as an improvement of the validation loss.
oob_score : bool
    Where rows are drawn, keep what the rounds say of the rows that they leave out.
callbacks : list of callables or None
    Called after each round with a `CallbackEnv`. One that returns True or raises `StopTraining` ends the training;
    any other exception reaches the caller of `fit`, and the rounds before it are the model.
warm_start : bool
    Go on from the last fit, up to `n_estimators` rounds: the same, to the bit, as all rounds at once.
verbose : int or "bar"
    Log the losses every so many rounds ("fastens" is the logger), or show a progress bar, which takes rich.
random_state : int, RandomState or None
    Fixes the rows and features drawn, and the validation rows; the model does not depend on `n_jobs`.
n_jobs : int or None
    Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.
""")
