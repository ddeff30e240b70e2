"""The parameters that all boosting estimators share: what they may be, and what their docstrings say of them."""

from __future__ import annotations

import numpy as np

from fastens.parameters import ANYTHING, FLAG, NONE, instance, one_of, real, whole

RULES = {
    "n_estimators": whole(1),
    "learning_rate": real(0, open_low=True),
    "max_leaf_nodes": whole(2) | NONE,
    "max_depth": whole(1) | NONE,
    "min_samples_leaf": whole(1),
    "min_child_weight": real(0),
    "min_gain_to_split": real(0),
    "l2_regularization": real(0),
    "max_bins": whole(2, 65_535),
    "max_features": whole(1) | real(0, 1, open_low=True),
    "max_features_per_tree": whole(1) | real(0, 1, open_low=True),
    "feature_weights": ANYTHING,
    "subsample": real(0, 1, open_low=True),
    "min_weight_leaf": real(0),
    "validation_fraction": real(0, 1, open_low=True, open_high=True),
    "early_stopping": FLAG | one_of("auto"),
    "n_iter_no_change": whole(1),
    "tol": real(0),
    "monotonic_cst": ANYTHING,
    "interaction_cst": ANYTHING,
    "path_smooth": real(0),
    "max_delta_step": real(0, open_low=True) | NONE,
    "categorical_features": ANYTHING,
    "categorical_encoding": one_of("auto", "partition", "target", "ordered"),
    "categorical_missing": one_of("missing", "category"),
    "one_hot_max_size": whole(0, 255),
    "min_samples_category": whole(1) | NONE,
    "max_categories_per_split": whole(1) | NONE,
    "category_smoothing": real(0),
    "category_l2": real(0),
    "verbose": whole(0) | FLAG,
    "random_state": whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE,
    "n_jobs": ANYTHING,
}

# Where a class has "    {parameters}" in its docstring.
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
        Smallest sum of hessians in a leaf.
    min_gain_to_split : float, default=0
        A split must gain more than this.
    l2_regularization : float, default=0
        Added to the sum of hessians of a leaf.
    max_bins : int, default=255
        Most bins of a feature, up to 65 535. A feature with no more distinct values keeps every one of them; missing
        values have a bin of their own besides.
    max_features : int or float, default=1.0
        Number, or share, of the features drawn for each split.
    max_features_per_tree : int or float, default=1.0
        Number, or share, of the features drawn for each tree; `max_features` draws from those.
    feature_weights : array of shape (n_features,), dict by name, or None, default=None
        Chances of the features where some are drawn; 1 for those that a dict leaves out, 0 for never.
    subsample : float, default=1.0
        Share of the rows drawn for each round.
    min_weight_leaf : float, default=0
        Smallest sum of sample weights in a leaf.
    validation_fraction : float, default=0.1
        Share of the rows kept for validation where early_stopping=True and `fit` gets no X_val.
    early_stopping : bool or "auto", default="auto"
        Stop when the validation loss no longer falls, and keep the rounds up to its lowest point. "auto": where `fit`
        gets X_val.
    n_iter_no_change : int, default=10
        Rounds without improvement before stopping.
    tol : float, default=1e-7
        What counts as an improvement of the validation loss.
    monotonic_cst : array of shape (n_features,), dict by name, or None, default=None
        1 where predictions must not fall as the feature rises, -1 where they must not rise, 0 elsewhere. Not for
        categorical features, nor for more than two classes.
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None, default=None
        Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
        in no group are one more group.
    path_smooth : float, default=0
        Pulls the value of a node towards that of its parent, as `l2_regularization` pulls it towards 0.
    max_delta_step : float or None, default=None
        Largest absolute value of a leaf, before the learning rate.
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
    categorical_encoding : "auto", "partition", "target" or "ordered", default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of the other rows of its category: those of the other parts of the rows ("target"), or
        those that come before it in a random order ("ordered"); rows to predict for get the mean of all. With three or
        more classes each has a column. "auto": "target" for columns of more than 64 categories, unless there are three
        or more classes, and "partition" for the others.
    categorical_missing : "missing" or "category", default="missing"
        Whether a missing value in a categorical column is treated as missing, as one never seen is, or is a category
        of its own.
    one_hot_max_size : int, default=2
        Columns of no more categories split them off one by one.
    min_samples_category : int or None, default=None
        Categories with fewer rows in a node are pooled there: a split sends them all to the same side. None: as
        `min_samples_leaf`.
    max_categories_per_split : int or None, default=None
        Most categories on the side of a split that has fewer of them.
    category_smoothing : float, default=10
        Rows of average gradient that each category is given before the categories of a node are put in order.
    category_l2 : float, default=3
        Added to `l2_regularization` in the gain of splits into sets of categories, in rows of average hessian.
    verbose : int, default=0
        Print the losses every so many rounds.
    random_state : int, RandomState or None, default=None
        Fixes the rows and features drawn, and the validation rows; the model does not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them."""
