"""The parameters that all boosting estimators share: what they may be, and what their docstrings say of them."""

from __future__ import annotations

import os

import numpy as np

from fastens.boosting.dart import NORMALIZE
from fastens.boosting.row_sampling import METHODS
from fastens.monitoring.metrics import METRICS
from fastens.parameters import ANYTHING, FLAG, NONE, Need, Rule, instance, one_of, read_with, real, whole

CALLBACKS = Rule(
    "a list of callables", lambda value: isinstance(value, list | tuple) and all(callable(each) for each in value)
)
SPLITTER = Rule(
    "a splitter of scikit-learn", lambda value: callable(getattr(value, "split", None)) and not isinstance(value, str)
)
NUMBER_OF_FEATURES = whole(1) | real(0, 1, open_low=True) | one_of("sqrt", "log2", None)

RULES = {
    "n_estimators": whole(1),
    "learning_rate": real(0, 1e30, open_low=True),
    "max_leaf_nodes": whole(2) | NONE,
    "max_depth": whole(1) | NONE,
    "min_samples_leaf": whole(1),
    "min_child_weight": real(0),
    "min_gain_to_split": real(0),
    "split_penalty": real(0) | NONE,
    "l2_regularization": real(0),
    "max_bins": whole(2, 65_535),
    "max_features": NUMBER_OF_FEATURES,
    "max_features_per_tree": NUMBER_OF_FEATURES,
    "feature_weights": ANYTHING,
    "subsample": real(0, 1, open_low=True),
    "boosting": one_of("gbdt", "dart"),
    "rate_drop": real(0, 1),
    "skip_drop": real(0, 1),
    "max_drop": whole(1) | NONE,
    "dart_normalize": one_of(*NORMALIZE),
    "sampling": one_of(*METHODS),
    "top_rate": real(0, 1, open_high=True),
    "other_rate": real(0, 1, open_low=True),
    "mvs_lambda": real(0) | NONE,
    "min_weight_leaf": real(0),
    "validation_fraction": real(0, 1, open_low=True, open_high=True),
    "early_stopping": FLAG | one_of("auto"),
    "n_iter_no_change": whole(1),
    "tol": real(0),
    "monotonic_cst": ANYTHING,
    "interaction_cst": ANYTHING,
    "path_smooth": real(0),
    "max_delta_step": real(0, open_low=True) | NONE,
    "linear_leaves": FLAG,
    "linear_l2": real(0),
    "categorical_features": ANYTHING,
    "categorical_encoding": one_of("auto", "partition", "target", "ordered"),
    "categorical_missing": one_of("missing", "category"),
    "one_hot_max_size": whole(0, 255),
    "min_samples_category": whole(1) | NONE,
    "max_categories_per_split": whole(1) | NONE,
    "category_smoothing": real(0),
    "category_l2": real(0),
    "validation": SPLITTER | NONE,
    "eval_metric": METRICS,
    "refit": FLAG,
    "oob_score": FLAG,
    "callbacks": CALLBACKS | NONE,
    "warm_start": FLAG,
    "checkpoint_path": instance((str, os.PathLike), "a path") | NONE,
    "checkpoint_every": whole(1),
    "verbose": whole(0) | FLAG | one_of("bar"),
    "random_state": whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE,
    "n_jobs": ANYTHING,
}

_DART, _GOSS = read_with("boosting", "dart"), read_with("sampling", "goss")
_EARLY = (Need("early_stopping", "early_stopping is True or 'auto'", bool),)
_HELD_OUT = (
    Need("early_stopping", "early_stopping is True", lambda value: not isinstance(value, str) and bool(value)),
)
# What is read only with other parameters.
NEEDS: dict[str, tuple[Need, ...]] = {
    "rate_drop": _DART,
    "skip_drop": _DART,
    "max_drop": _DART,
    "dart_normalize": _DART,
    "top_rate": _GOSS,
    "other_rate": _GOSS,
    "mvs_lambda": read_with("sampling", "mvs"),
    "linear_l2": (Need("linear_leaves", "linear_leaves is True", bool),),
    "validation_fraction": (*_HELD_OUT, *read_with("validation", None)),
    "n_iter_no_change": _EARLY,
    "tol": _EARLY,
    "eval_metric": _EARLY,
    "refit": _EARLY,
}
# What is read only where there are rows to validate on.
OF_VALIDATION = ("n_iter_no_change", "tol", "eval_metric", "refit")

# Where a class has "{parameters}" in its docstring.
PARAMETERS = """\
    n_estimators : int, default=100
        Number of rounds.
    learning_rate : float, default=0.1
        Factor of every leaf value.
    max_leaf_nodes : int or None, default=31
        Most leaves of a tree, which grows best-first; None grows level by level without that limit.
    max_depth : int or None, default=None
        Most splits between the root and a leaf.
    min_samples_leaf : int, default=20
        Fewest rows in a leaf, whatever their weights.
    min_child_weight : float, default=1e-3
        Smallest sum of hessians in a leaf; where the mean weight of the rows is below 1, times that mean.
    min_gain_to_split : float, default=0
        A split must gain more than this.
    split_penalty : float or None, default=None
        A grown tree is pruned to where its gain, less this for each split, is greatest (minimal cost-complexity
        pruning), in units of the noise: the variance of the gradients within its leaves over the mean hessian. 2 is
        Akaike's criterion with an estimated dispersion (Burnham & Anderson 2002, section 2.5); 0 keeps all splits.
        None: 2, or 0 where gradients do not tell the noise: for absolute errors, quantiles, Huber's loss and ranking.
    l2_regularization : float, default=1
        Added to the sum of hessians of a leaf; where the mean weight of the rows is below 1, times that mean.
    max_bins : int, default=255
        Most bins of a feature, up to 65 535. A feature with no more distinct values keeps every one of them; missing
        values have a bin of their own besides.
    max_features : int, float, "sqrt", "log2" or None, default=1.0
        Number, or share, of the features drawn for each split; None for all.
    max_features_per_tree : int, float, "sqrt", "log2" or None, default=1.0
        The same for each tree; `max_features` draws from those.
    feature_weights : array of shape (n_features,), dict by name, or None, default=None
        Chances of the features where some are drawn (`max_features`, `max_features_per_tree`); 1 for those that a dict
        leaves out. A feature of weight 0 is in no tree.
    subsample : float, default=1.0
        Share of the rows drawn for each round.
    boosting : "gbdt" or "dart", default="gbdt"
        Whether each round corrects all trees before it, or leaves some of them out, so that no few of them decide
        (DART, Rashmi & Gilad-Bachrach 2015).
    rate_drop, skip_drop : float, default=0.1 and 0.5
        With boosting="dart": the chance of each earlier round to be left out, and of a round to leave out none.
    max_drop : int or None, default=50
        Most rounds left out at once.
    dart_normalize : "tree" or "forest", default="tree"
        Whether a new tree weighs as much as each of those left out, or as all of them together.
    sampling : "uniform", "goss" or "mvs", default="uniform"
        How rows are drawn: each with the same chance; all with large gradients, and some of the others, which count for
        more (Ke et al. 2017); or each with a chance that grows with its gradient, and counting the more the smaller it
        is (Ibragimov & Gusev 2019).
    top_rate, other_rate : float, default=0.2 and 0.1
        With sampling="goss": the share of the rows with the largest gradients, and of others, of all rows.
    mvs_lambda : float or None, default=None
        With sampling="mvs": what the squared hessian counts beside the squared gradient. None: the square of the mean
        gradient's size over the mean hessian.
    min_weight_leaf : float, default=0
        Smallest sum of sample weights in a leaf.
    validation_fraction : float, default=0.1
        Share of the rows kept for validation where early_stopping=True and `fit` gets no X_val.
    early_stopping : bool or "auto", default="auto"
        Stop when the validation loss no longer falls, and keep the rounds up to its lowest point. "auto": where `fit`
        gets X_val.
    validation : splitter or None, default=None
        A splitter of scikit-learn, such as GroupShuffleSplit or TimeSeriesSplit, whose last split gives the rows to
        train on and those to validate on, in place of `validation_fraction`; `fit` takes `groups` for it.
    eval_metric : str, callable or list of such, default="loss"
        What rows to validate on are measured by: "loss", names of scikit-learn's scorers, scorers, and functions of (y,
        predictions), the predictions being probabilities in classification (of the second of two classes), that return
        a number, better if smaller, or (name, number, whether larger is better). The first one decides when to stop.
    refit : bool, default=False
        After early stopping on rows held out of X, train again on all rows, for the best number of rounds.
    n_iter_no_change : int, default=10
        Rounds without improvement before stopping.
    tol : float, default=1e-7
        What counts as an improvement of the validation loss.
    monotonic_cst : array of shape (n_features,), dict by name, or None, default=None
        1 where predictions must not fall as the feature rises, -1 where they must not rise, 0 elsewhere. Not for
        categorical features, nor for more than two classes. With several targets it holds for each of them.
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None, default=None
        Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
        in no group are one more group.
    path_smooth : float, default=0
        Pulls the value of a node towards that of its parent, as `l2_regularization` pulls it towards 0.
    max_delta_step : float or None, default=None
        Largest absolute value of a leaf, or of what its line says, before the learning rate.
    linear_leaves : bool, default=False
        Whether leaves are linear models of the numeric features on their paths (Shi, Li & Li 2019), where none of these
        is missing; values outside the range of a leaf's training rows count as its ends. Several targets have trees of
        their own. Lines keep to `monotonic_cst` and `max_delta_step`. Not with losses without a hessian.
    linear_l2 : float, default=10
        The ridge penalty of these models: added to the sum of hessians of a leaf where slopes are found, by features of
        variance 1 there.
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
    categorical_encoding : "auto", "partition", "target" or "ordered", default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of the other rows of its category: those of the other parts of the rows ("target"), or
        those that come before it in a random order ("ordered"); rows to predict for get the mean of all. With three or
        more classes each has a column. "auto": "target" for columns of more than 32 categories, unless there are three
        or more classes, and "partition" for the others.
    categorical_missing : "missing" or "category", default="missing"
        Whether a missing value in a categorical column is treated as missing, as one never seen is, or is a category
        of its own.
    one_hot_max_size : int, default=2
        Columns of no more categories split them off one by one.
    min_samples_category : int or None, default=None
        Categories with fewer rows in a node are pooled there: a split sends them all to the same side. None: 10,
        or `min_samples_leaf` where that is less.
    max_categories_per_split : int or None, default=None
        Most categories on the side of a split that has fewer of them.
    category_smoothing : float, default=5
        Rows of average gradient that each category is given before the categories of a node are put in order.
    category_l2 : float, default=3
        Added to `l2_regularization` in the gain of splits into sets of categories, in rows of average hessian.
    oob_score : bool, default=False
        Where rows are drawn, keep what the rounds say of the rows that they leave out.
    callbacks : list of callables or None, default=None
        Called after each round with a `CallbackEnv`. One that returns True or raises `StopTraining` ends the training;
        any other exception reaches the caller of `fit`, and the rounds before it are the model.
    warm_start : bool, default=False
        Go on from the last fit, up to `n_estimators` rounds: the same, to the bit, as all rounds at once.
    checkpoint_path : path or None, default=None
        Save the model there every `checkpoint_every` rounds; ``fit(..., resume=path)`` goes on from it.
    checkpoint_every : int, default=10
        Rounds between checkpoints.
    verbose : int or "bar", default=0
        Log the losses every so many rounds ("fastens" is the logger), or show a progress bar, which takes rich.
    random_state : int, RandomState or None, default=None
        Fixes the rows and features drawn, and the validation rows; the model does not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them."""
