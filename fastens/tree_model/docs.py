"""Parameters and attributes that several estimators made of trees share, for their docstrings."""

from __future__ import annotations

from fastens.docstrings import WEIGHT_TYPE_DOCS, entries

DOCS = WEIGHT_TYPE_DOCS | entries("""\
max_bins : int
    Most bins of a feature, up to 65 535. A feature with no more distinct values keeps every one of them; missing
    values have a bin of their own besides.
feature_weights : array of shape (n_features,), dict by name, or None
    Chances of the features where some are drawn (`max_features`, `max_features_per_tree`); 1 for those that a dict
    leaves out. A feature of weight 0 is in no tree.
interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None
    Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
    in no group are one more group.
categorical_features : "from_dtype", list of names or indices, mask, or None
    Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
categories : Categories or None
    What trees see of categorical columns: the options `encoding`, `missing` and `unseen` of `Categories`.
class_weight : dict, "balanced" or None
    Weights of the classes, multiplied with `sample_weight`.
random_state : int, RandomState or None
    Fixes what is drawn; the model does not depend on `n_jobs`.
n_jobs : int or None
    Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.
classes_ : array of shape (n_classes,)
    The labels, sorted.
n_features_in_ : int
    Number of columns.
feature_names_in_ : array of shape (n_features_in_,)
    Their names, where all of them are strings.
""")
