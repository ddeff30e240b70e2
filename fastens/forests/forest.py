"""Random forests: trees on bootstrap samples that look at few features for each split (Breiman 2001)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastens.forests.base_forest import ForestClassifier, ForestRegressor


class RandomForestClassifier(ForestClassifier):
    """A random forest for classification.

    Each tree is grown on a bootstrap sample of the rows, and looks for each split at a few features drawn at random.
    The trees' class shares are averaged.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        What a split lowers; entropy and log_loss are the same.
    max_depth : int or None, default=None
        Most splits between the root and a leaf.
    min_samples_split : int or float, default=2
        Fewest rows, or smallest share of them, that a node may be split with.
    min_samples_leaf : int or float, default=1
        Fewest rows, or smallest share of them, in a leaf, whatever their weights.
    min_weight_fraction_leaf : float, default=0
        Smallest share of all weights in a leaf.
    max_features : int, float, "sqrt", "log2" or None, default="sqrt"
        How many features, drawn anew for each split, are looked at: a number, a share, or None for all.
    max_leaf_nodes : int or None, default=None
        Most leaves of a tree, which then grows best-first.
    min_impurity_decrease : float, default=0
        A split must lower the impurity, times the node's share of the weights, by this much.
    max_features_per_tree : int, float, "sqrt", "log2" or None, default=None
        How many features, drawn once for each tree, it may use; `max_features` draws among them.
    bootstrap : bool, "stratified" or "balanced", default=True
        Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
        numbers), with chances in proportion to their weights. "stratified" draws from each class as many as it has;
        "balanced" from each as many as the smallest has (Chen, Liaw & Breiman 2004).
    max_samples : int, float or None, default=None
        With bootstrap: number of draws, or share of the usual number.
    oob_score : bool or function, default=False
        Predict each row by the trees whose bags do not have it, and score that: by `score`, or by a function of targets
        and predictions.
    warm_start : bool, default=False
        `fit` adds trees to those there are, up to `n_estimators`: given the same rows, the same forest as all at once.
    voting : {"soft", "hard"}, default="soft"
        Average the trees' class shares, or count a vote for each tree.
    class_weight : dict, list of dicts, "balanced", "balanced_subsample" or None, default=None
        Factors of the rows' weights by class; with bootstrap, of their chances to be drawn. "balanced_subsample"
        balances the classes of each bag instead. A list has a dict for each target.
    averaging : "posterior", dict or None, default=None
        Average each tree over all its prunings (see `BayesTreeClassifier`); predicting costs the same. A dict has
        values for the prior: "alpha" (0.01), "split_prior" (0.2), "temperature" (1); and "evidence": "train" (the
        default), the rows of the bag, or "oob", the others, given those.
    ccp_alpha : float, default=0
        Cut back subtrees that lower the impurity by less than this for each of their leaves (minimal cost-complexity
        pruning, Breiman et al. 1984).
    monotonic_cst : array of -1, 0, 1 or dict by name, default=None
        Features with which the prediction (the share of the second of two classes) must not fall (1) or rise (-1).
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None, default=None
        Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
        in no group are one more group.
    feature_weights : array of shape (n_features,), dict by name, or None, default=None
        Chances of the features where some are drawn; 1 for those that a dict leaves out. A feature of weight 0 is in no
        tree.
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
    categorical_encoding : {"auto", "partition", "target", "ordered"}, default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of its category among other rows ("target", "ordered": Prokhorenkova et al. 2018). "auto":
        "target" for columns of more than 32 categories, unless there are three or more classes.
    categorical_missing : {"missing", "category"}, default="missing"
        Whether a missing value in a categorical column is missing, or a category of its own.
    max_bins : int, default=255
        Most bins of a feature, up to 65 535. A feature with no more distinct values is split exactly as they lie;
        missing values have a bin of their own besides.
    random_state : int, RandomState or None, default=None
        Fixes what is drawn; the model does not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of arrays
        The labels, sorted, of each target.
    n_classes_ : int, or list of int
        Their number.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_outputs_ : int
        Number of targets.
    estimators_ : sequence
        The trees, each an estimator of its own that is made when asked for.
    feature_importances_ : array of shape (n_features_in_,)
        Share of each feature in the decrease of impurity, the mean over the trees.
    oob_score_ : float
        Score out of bag, with `oob_score`.
    oob_scores_ : array of shape (n_estimators,)
        Score of each tree on the rows out of its bag, with `oob_score`; NaN where there are none.
    oob_error_curve_ : array of shape (n_estimators,)
        Share of rows predicted wrongly out of bag after each tree, with `oob_score`.
    oob_decision_function_ : array
        Probabilities out of bag, NaN for rows in all bags, with `oob_score`.

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.oob_score_ > 0.9
    True
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        max_features_per_tree: int | float | str | None = None,
        bootstrap: bool | str = True,
        max_samples: int | float | None = None,
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        voting: str = "soft",
        class_weight: Any = None,
        averaging: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        feature_weights: Any = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        max_bins: int = 255,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())


class RandomForestRegressor(ForestRegressor):
    """A random forest for regression.

    Each tree is grown on a bootstrap sample of the rows, and may look for each split at some of the features, drawn at
    random. The trees' predictions are averaged.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    criterion : {"squared_error", "absolute_error", "poisson"}, default="squared_error"
        What a split lowers. Leaves predict the mean, with absolute_error the weighted median.
    max_depth : int or None, default=None
        Most splits between the root and a leaf.
    min_samples_split : int or float, default=2
        Fewest rows, or smallest share of them, that a node may be split with.
    min_samples_leaf : int or float, default=1
        Fewest rows, or smallest share of them, in a leaf, whatever their weights.
    min_weight_fraction_leaf : float, default=0
        Smallest share of all weights in a leaf.
    max_features : int, float, "sqrt", "log2" or None, default=1.0
        How many features, drawn anew for each split, are looked at: a number, a share, or None for all.
    max_leaf_nodes : int or None, default=None
        Most leaves of a tree, which then grows best-first.
    min_impurity_decrease : float, default=0
        A split must lower the impurity, times the node's share of the weights, by this much.
    max_features_per_tree : int, float, "sqrt", "log2" or None, default=None
        How many features, drawn once for each tree, it may use; `max_features` draws among them.
    bootstrap : bool, default=True
        Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
        numbers), with chances in proportion to their weights.
    max_samples : int, float or None, default=None
        With bootstrap: number of draws, or share of the usual number.
    oob_score : bool or function, default=False
        Predict each row by the trees whose bags do not have it, and score that: by `score`, or by a function of targets
        and predictions.
    warm_start : bool, default=False
        `fit` adds trees to those there are, up to `n_estimators`: given the same rows, the same forest as all at once.
    keep_leaves : bool, default=False
        Keep the training targets of every leaf, which `predict_quantiles` needs.
    averaging : "posterior", dict or None, default=None
        Average each tree over all its prunings (see `BayesTreeRegressor`); predicting costs the same. A dict has
        values for the prior: "prior_weight" (0.02), "prior_shape" (1), "prior_scale" (0.02), "split_prior" (0.5),
        "temperature" (1); and "evidence": "train" (the default), the rows of the bag, or "oob", the others given those.
    ccp_alpha : float, default=0
        Cut back subtrees that lower the impurity by less than this for each of their leaves (minimal cost-complexity
        pruning, Breiman et al. 1984).
    monotonic_cst : array of -1, 0, 1 or dict by name, default=None
        Features with which the prediction must not fall (1) or rise (-1).
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None, default=None
        Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
        in no group are one more group.
    feature_weights : array of shape (n_features,), dict by name, or None, default=None
        Chances of the features where some are drawn; 1 for those that a dict leaves out. A feature of weight 0 is in no
        tree.
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
    categorical_encoding : {"auto", "partition", "target", "ordered"}, default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of its category among other rows ("target", "ordered": Prokhorenkova et al. 2018). "auto":
        "target" for columns of more than 32 categories, unless there are three or more classes.
    categorical_missing : {"missing", "category"}, default="missing"
        Whether a missing value in a categorical column is missing, or a category of its own.
    max_bins : int, default=255
        Most bins of a feature, up to 65 535. A feature with no more distinct values is split exactly as they lie;
        missing values have a bin of their own besides.
    random_state : int, RandomState or None, default=None
        Fixes what is drawn; the model does not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_outputs_ : int
        Number of targets.
    estimators_ : sequence
        The trees, each an estimator of its own that is made when asked for.
    feature_importances_ : array of shape (n_features_in_,)
        Share of each feature in the decrease of impurity, the mean over the trees.
    oob_score_ : float
        Score out of bag, with `oob_score`.
    oob_scores_ : array of shape (n_estimators,)
        Score of each tree on the rows out of its bag, with `oob_score`; NaN where there are none.
    oob_error_curve_ : array of shape (n_estimators,)
        Mean squared error out of bag after each tree, with `oob_score`.
    oob_prediction_ : array
        Predictions out of bag, NaN for rows in all bags, with `oob_score`.

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    >>> model.oob_score_ > 0.3
    True
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        max_features_per_tree: int | float | str | None = None,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        keep_leaves: bool = False,
        averaging: Any = None,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        feature_weights: Any = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        max_bins: int = 255,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())
