"""Rules and descriptions of the parameters that all boosting estimators share."""

from __future__ import annotations

from fastens.docstrings import entries
from fastens.engine.losses.loss_names import is_custom
from fastens.parameters import FLAG, Need, Rule, one_of, real, whole
from fastens.tree_model.docs import DOCS as TREE_DOCS

CALLBACKS = Rule(
    "a list of callables", lambda value: isinstance(value, list | tuple) and all(callable(each) for each in value)
)
NUMBER_OF_FEATURES = whole(1) | real(0, 1, open_low=True) | one_of("sqrt", "log2", None)
CUSTOM = Rule("a function or object that gives derivatives", is_custom)

AUTO = FLAG | one_of("auto")
# When parameters of early stopping are read.
STOPS = (Need("early_stopping", "early_stopping is True or 'auto'", bool),)
SPLITS = (
    Need("early_stopping", "early_stopping is True", lambda value: not isinstance(value, str) and bool(value)),
    Need(
        "early_stopping",
        "early_stopping has no validation splitter",
        lambda value: getattr(value, "validation", None) is None,
    ),
)

DOCS = TREE_DOCS | entries("""\
class_weight : dict, "balanced" or None
    Weights of the classes, multiplied with `sample_weight`. Rows of X_val have those of `sample_weight_val` alone.
n_estimators : int
    Number of rounds.
learning_rate : float
    Factor of every leaf value.
max_leaf_nodes : int or None
    Most leaves of a tree, which grows best-first; None grows level by level without that limit.
max_depth : int or None
    Most splits between the root and a leaf.
min_samples_leaf : int or None
    Fewest rows in a leaf; a row of a whole weight counts as so many, one of a fraction as one. None: 5, or 20 where
    the dispersion cannot be estimated (see `split_penalty`) or leaves are linear models. Leaves of quantiles below 0.1
    or above 0.9 have as many more as it takes for two of them to be beyond the level, 200 for 0.99, up to a fifth of
    the rows that a tree is grown on: each of several levels its own, unless several targets share their trees.
l2_regularization : float or None
    Added to the sum of hessians of a leaf; where the mean weight of the rows is below 1, times that mean. None: 1; with
    log losses 3 times the root of the noise before the tree; with losses of the logarithm of a mean, a hazard or a time
    30 times, and with "exponential" 10 times the noise, up to a fifth of all hessians; with expectiles 20 times the
    root of the noise over that of the best constant. The noise is the sum of the squared gradients over that of the
    hessians: about 1 for counts and where classes overlap; it falls to 0 where they do not.
split_penalty : float or None
    A grown tree is pruned to where its gain, less this for each split, is greatest (minimal cost-complexity
    pruning), in units of the noise: the variance of the gradients within its leaves over the mean hessian. 2 is
    Akaike's criterion with an estimated dispersion (Burnham & Anderson 2002, section 2.5); 0 keeps all splits.
    None: 3, or 0 where the dispersion cannot be estimated: for absolute errors, quantiles, Huber's loss and ranking.
max_features : int, float, "sqrt", "log2" or None
    Number, or share (rounded up), of the features drawn for each split; None for all.
max_features_per_tree : int, float, "sqrt", "log2" or None
    The same for each tree; `max_features` draws from those.
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
categories : Categories or None
    How trees see categorical columns, such as `Categories(encoding="partition")`.
early_stopping : bool, "auto" or EarlyStopping
    Stop when the validation loss no longer falls, and keep the rounds up to its lowest point. "auto": where `fit`
    gets X_val. `EarlyStopping` chooses the metric and the rows.
validation_fraction : float
    Share of the rows kept for validation where early_stopping=True and `fit` gets no X_val.
n_iter_no_change : int
    Rounds without improvement before stopping.
tol : float
    What counts as an improvement of the validation loss. Where the first one is below 1, as that of small targets is,
    this is a share of it, except of log losses.
oob_score : bool
    Where rows are drawn, predict each row by the rounds that did not draw it, and measure that.
callbacks : list of callables or None
    Called after each round with a `CallbackEnv`. One that returns True or raises `StopTraining` ends the training;
    any other exception reaches the caller of `fit`, and the rounds before it are the model.
warm_start : bool
    Go on from the last fit, up to `n_estimators` rounds: the same, to the bit, as all rounds at once.
verbose : int or "bar"
    Log the losses every so many rounds ("fastens" is the logger), or show a progress bar, which takes rich.
random_state : int, RandomState or None
    Fixes the rows and features drawn, and the validation rows; the model does not depend on `n_jobs`. None: others in
    each fit, but for the features and thresholds of a fit that draws nothing else.
n_estimators_, n_iter_ : int
    Rounds kept.
best_iteration_ : int
    The same: with early stopping the round of the best validation.
train_score_, validation_score_ : arrays
    After each round, the loss of at most 4000 evenly spaced training rows (of all where it is not a sum over rows), and
    what the validation rows, if any, are measured by.
validation_scores_ : dict of arrays
    All of `eval_metric` after each round, by name.
oob_improvement_ : array of shape (n_rounds,)
    With oob_score=True: by how much each round lowered the loss of the rows that it left out.
oob_prediction_ : array of the shape of predictions
    And the prediction of each row by those of the rounds kept that left it out, which stand for all of them.
""")
