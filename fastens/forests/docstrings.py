"""The parameters and attributes of trees and forests, as their docstrings describe them."""

from __future__ import annotations

from fastens.docstrings import entries
from fastens.tree_model.docs import DOCS as TREE_DOCS

DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of trees.
splitter : {"best", "random"}
    Take the best threshold of each feature, or one at random, as extra trees draw it.
max_depth : int or None
    Most splits between the root and a leaf.
min_samples_split : int or float
    Fewest rows, or smallest share of them, that a node may be split with.
min_samples_leaf : int or float
    Fewest rows, or smallest share of them, in a leaf, whatever their weights.
min_weight_fraction_leaf : float
    Smallest share of all weights in a leaf.
max_features : int, float, "sqrt", "log2" or None
    How many features, drawn anew for each split, are looked at: a number, a share, or None for all. Those that are
    constant in the node do not count.
max_leaf_nodes : int or None
    Most leaves of a tree, which then grows best-first.
min_impurity_decrease : float
    A split must lower the impurity, times the node's share of the weights, by this much.
max_features_per_tree : int, float, "sqrt", "log2" or None
    How many features, drawn once for each tree, it may use; `max_features` draws among them.
max_samples : int, float or None
    With bootstrap: number of draws, or share of the usual number.
oob_score : bool or function
    Predict each row by the trees whose bags do not have it, and score that: by `score`, or by a function of targets
    and predictions.
warm_start : bool
    `fit` adds trees to those there are, up to `n_estimators`: given the same rows, the same forest as all at once.
    Given other rows, or drawing them in another way, it needs ``oob_score=False``, and the bags are not known.
keep_leaves : bool
    Keep the training targets of every leaf, which `predict_quantiles` needs.
ccp_alpha : float
    Cut back subtrees that lower the impurity by less than this for each of their leaves (minimal cost-complexity
    pruning, Breiman et al. 1984).
criterion : {"squared_error", "absolute_error", "poisson"}
    What a split lowers. Leaves predict the mean, with absolute_error the weighted median. "friedman_mse", of
    scikit-learn before 1.11, is "squared_error".
bootstrap : bool
    Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
    numbers), with chances in proportion to their weights.
averaging : "posterior", PosteriorAverage or None
    Average each tree over all its prunings (see `BayesTreeRegressor`); predicting costs the same. `PosteriorAverage`
    chooses the prior and the rows that are evidence.
monotonic_cst : array of -1, 0, 1 or dict by name
    Features with which the prediction must not fall (1) or rise (-1).
classes_ : array of shape (n_classes,), or list of arrays
    The labels, sorted, of each target.
""")
# Where classes differ from numbers.
CLASS_DOCS = DOCS | entries("""\
criterion : {"gini", "entropy", "log_loss"}
    What a split lowers; entropy and log_loss are the same.
bootstrap : bool, "stratified" or "balanced"
    Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
    numbers), with chances in proportion to their weights. "stratified" draws from each class as many as it has;
    "balanced" from each as many as the smallest has (Chen, Liaw & Breiman 2004).
voting : {"soft", "hard"}
    Average the trees' class shares, or count a vote for each tree.
class_weight : dict, list of dicts, "balanced", "balanced_subsample" or None
    Factors of the rows' weights by class; with bootstrap, of their chances to be drawn. "balanced_subsample"
    balances the classes of each bag instead. A list has a dict for each target.
averaging : "posterior", PosteriorAverage or None
    Average each tree over all its prunings (see `BayesTreeClassifier`); predicting costs the same. `PosteriorAverage`
    chooses the prior and the rows that are evidence.
monotonic_cst : array of -1, 0, 1 or dict by name
    Features with which the prediction (the share of the second of two classes) must not fall (1) or rise (-1).
""")
# Of single trees, which draw no rows.
TREE_CLASS_DOCS = entries("""\
class_weight : dict, list of dicts, "balanced" or None
    Factors of the rows' weights by class. A list has a dict for each target.
""")
