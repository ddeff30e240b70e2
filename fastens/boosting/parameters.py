"""Boosting parameters: presets, checks of combinations, descriptions and the parameters of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.forced_splits import forced_nodes, forced_splits, with_forced_edges
from fastens.boosting.rounds import BoostingParameters, Rounds
from fastens.boosting.row_sampling import RowSampling
from fastens.engine.bins.binning import Binning, learn_binning
from fastens.engine.grow.growth import ForcedNodes, GrowthParameters, count_of
from fastens.engine.losses.loss_names import is_custom
from fastens.engine.losses.losses import Loss
from fastens.engine.losses.ranking_loss import RELEVANCE, LambdaRank
from fastens.engine.parts import stored_binning
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import Categories, EarlyStopping, Goss, Growth, Mvs
from fastens.params.rules import FLAG, NONE, Need, Rule, one_of, real, whole
from fastens.tree_model.saving import bins_of_features
from fastens.tree_model.tree_model import column_chances, monotone_columns, path_rules

# These defaults were tuned jointly, see docs/defaults.md. If the noise can be estimated, pruning replaces a large
# minimum leaf size, except that linear models need leaves with many rows.
SPLIT_PENALTY = 3.0
MIN_ROWS, DEFAULT_MIN_SAMPLES_NO_NOISE = 5, 20
# For distributions, whose scale parameter needs more rows: on ten tables, the log likelihood per row was 0.018 higher
# than with 5 rows and 0.014 higher than with 20 rows.
MIN_ROWS_OF_DISTRIBUTION = 10
ROWS_IN_TAIL = 2.0  # rows expected beyond a quantile in a leaf; 20 rows in total for levels 0.1 and 0.9
# The second pruning level of `select_pruning`, which suits noise-free targets.
LESS_PRUNED: dict[str, Any] = {"min_samples_leaf": 2, "split_penalty": 1.0}
L2_OTHERWISE = 1.0  # the default for losses whose L2 does not depend on the noise
# Classification only: fewer thresholds make regression worse, see docs/defaults.md.
ROWS_PER_THRESHOLD = 100
# Bound on the targets of target encoding, so that sums of squares do not overflow.
_LARGEST_SLOPE = 1e30


def growth_parameters(model: Any) -> GrowthParameters:
    """Return the parameters of tree growth, with column constraints translated to the columns of the trees."""
    per_tree = count_of(model.max_features_per_tree, len(model._column_of), up=True)
    growth, categories = model._options("growth").get_params(), model._options("categories")
    of_same_name = {each.name: growth[each.name] for each in fields(GrowthParameters) if each.name in growth}
    min_samples_leaf, (l2, noise_l2) = min_leaf_rows(model), _l2(model)
    monotone = monotone_columns(model, by_class=True)
    return GrowthParameters(
        **of_same_name | {"rows_per_threshold": _rows_per_threshold(model, model._loss), "forced_splits": None},
        max_leaf_nodes=model.max_leaf_nodes,
        max_depth=model.max_depth,
        min_samples_leaf=min_samples_leaf,
        min_samples_tail=ROWS_IN_TAIL if model.min_samples_leaf is None and model._loss.name == "quantile" else 0.0,
        split_penalty=_split_penalty(model),
        l2_regularization=l2,
        noise_l2=noise_l2,
        noise_power=model._loss.noise_power,
        features_per_split=count_of(model.max_features, per_tree, up=True),
        features_per_tree=per_tree,
        feature_weights=column_chances(model, up=True),
        monotone=monotone,
        **path_rules(model),
        category_l2=categories.l2,
        category_smoothing=categories.smoothing,
        min_samples_category=categories.min_samples or min(10, min_samples_leaf),
        max_categories_per_split=categories.max_per_split,
        one_hot_max_size=categories.one_hot_max_size,
    )


def _l2(model: Any) -> tuple[float, float]:
    """Return the constant part of the L2 penalty, and the factor by which it grows with the noise of the gradients."""
    if model.l2_regularization is not None:
        return model.l2_regularization, 0.0
    of_noise = model._loss.noise_l2
    return (0.0 if of_noise else L2_OTHERWISE), of_noise


def _rows_per_threshold(model: Any, loss: Loss) -> int | None:
    """Return the number of rows of a node for each random threshold drawn; None if all thresholds are evaluated."""
    rows_per_threshold = model._options("growth").rows_per_threshold
    if rows_per_threshold != "auto":
        return rows_per_threshold
    return ROWS_PER_THRESHOLD if loss.has_log_odds and not model.linear_leaves else None


def _split_penalty(model: Any) -> float:
    """Return the pruning penalty of a split, in units of the gradients' dispersion, 0 if the loss lacks it."""
    if model.split_penalty is not None:
        return model.split_penalty
    return SPLIT_PENALTY if model._loss.measures_noise else 0.0


def min_leaf_rows(model: Any) -> int:
    """Return the minimum number of rows in a leaf; if `min_samples_leaf` is None, it depends on the loss."""
    if model.min_samples_leaf is not None:
        return model.min_samples_leaf
    if not _prunes_by_noise(model):
        return DEFAULT_MIN_SAMPLES_NO_NOISE
    return MIN_ROWS_OF_DISTRIBUTION if model._loss.has_distribution else MIN_ROWS


def _prunes_by_noise(model: Any) -> bool:
    """Return True if trees are pruned by the estimated noise of the targets, which some losses do not measure."""
    return model._loss.measures_noise and not model.linear_leaves


def less_pruned(model: Any) -> Any:
    """Return a copy of the model with the parameters `LESS_PRUNED`; None if `select_pruning` does not apply."""
    is_given = any(getattr(model, name) is not None for name in LESS_PRUNED)
    if is_given or not model._stopping.select_pruning or not _prunes_by_noise(model):
        return None
    other = copy(model)
    vars(other).update(LESS_PRUNED)
    return other


def _continues_single_output_trees(model: Any) -> bool:
    """Return True if the fit continues a multi-output model with one tree per output, such as an imported one."""
    trees = getattr(model, "_ensemble", None) if model.warm_start else None
    return trees is not None and trees.value.shape[1] < trees.n_outputs


def boosting_parameters(model: Any, seed: int, n_threads: int) -> BoostingParameters:
    """Return the parameters of the boosting rounds, without the parameters of tree growth."""
    linear = model._options("linear_leaves")
    return BoostingParameters(
        n_rounds=model.n_estimators,
        learning_rate=learning_rates(model),
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        seed=seed,
        n_threads=n_threads,
        sampling=row_sampling(model),
        out_of_bag=model.oob_score,
        dart=model._options("boosting"),
        linear_l2=None if linear is None else linear.l2,
        jointly=model._n_targets > 1 and linear is None and not _continues_single_output_trees(model),
    )


def learning_rates(model: Any) -> float | tuple[float, ...]:
    """Return the learning rate, or a tuple with the rate of each round if `learning_rate` is a list or function.

    Raise ValueError for a list with too few numbers, or a function that returns an invalid one.
    """
    learning_rate, n_rounds = model.learning_rate, model.n_estimators
    if RATE.holds(learning_rate):
        return learning_rate
    if not callable(learning_rate):
        if len(learning_rate) < n_rounds:
            raise ValueError(
                f"learning_rate must have one number for each of the {n_rounds} rounds; got {len(learning_rate)}."
            )
        return tuple(map(float, learning_rate[:n_rounds]))
    rates = [learning_rate(index) for index in range(n_rounds)]
    for index, rate in enumerate(rates):
        if not RATE.holds(rate):
            raise ValueError(f"learning_rate must return positive numbers; got {rate!r} for round {index}.")
    return tuple(map(float, rates))


def row_sampling(model: Any) -> RowSampling:
    """Return the fraction of the rows that each round draws, and the options of the sampling method."""
    return RowSampling(model.subsample, model._options("sampling"))


def draws_splits(model: Any) -> bool:
    """Return True if trees or nodes draw features at random, or nodes draw thresholds."""
    if _rows_per_threshold(model, model._get_loss()) is not None:
        return True
    n_features = model.n_features_in_
    wanted = (model.max_features_per_tree, model.max_features)
    return min(count_of(limit, n_features, up=True) for limit in wanted) < n_features


def _check_called_after(callbacks: Iterable[Any]) -> None:
    """Raise ValueError for LightGBM callbacks that run before a round to change its parameters."""
    for callback in callbacks:
        if getattr(callback, "before_iteration", False):
            raise ValueError(
                "callbacks must be functions that are called after a round, not before it like LightGBM's "
                f"reset_parameter; got {callback!r}. For a learning-rate schedule pass learning_rate=[...] or "
                "a function of the round."
            )


def validate_combinations(model: Any) -> None:
    """Raise ValueError for parameters that exclude each other."""
    _check_called_after(model.callbacks or ())
    if model._options("growth").split_criterion == "squared_error" and (
        model.linear_leaves or not model._has_squared_error_splits
    ):
        other = "linear_leaves" if model.linear_leaves else f"a {type(model).__name__}"
        raise ValueError(f"growth.split_criterion must be 'newton' with {other}; got 'squared_error'.")
    sampling = model._options("sampling")
    if isinstance(sampling, Goss) and model.subsample != 1:
        rule = "subsample must be 1 with sampling='goss', which is set by top_rate and other_rate"
        raise ValueError(f"{rule}; got {model.subsample}.")
    drawn = "mvs" if isinstance(sampling, Mvs) else "queries" if model.sampling == "queries" else None
    if drawn is not None and model.subsample == 1:
        raise ValueError(
            f"subsample must be below 1 with sampling={drawn!r}, because it is the fraction of rows to draw; got 1."
        )
    if model.oob_score and model._options("boosting") is not None:
        raise ValueError("oob_score must be False with boosting='dart', because its rounds drop trees.")
    if model._options("boosting") is not None and not RATE.holds(model.learning_rate):
        raise ValueError(
            "learning_rate must be a single number with boosting='dart', because its rounds rescale earlier trees."
        )
    check_folds(model)
    if model.oob_score and not row_sampling(model).draws:
        raise ValueError("oob_score must be False if every round trains on all rows. Set subsample below 1.")


def check_folds(model: Any) -> None:
    """Raise ValueError for parameters that are incompatible with `early_stopping.folds`."""
    stopping = model._stopping
    if stopping.folds is None:
        if stopping.select_pruning:
            raise ValueError(
                "early_stopping.select_pruning must be False without early_stopping.folds; got True. Set folds."
            )
        return
    if not RATE.holds(model.learning_rate):
        raise ValueError(
            "learning_rate must be a single number with early_stopping.folds, because a time limit may raise it."
        )
    for name, none, value in (
        ("early_stopping.validation", None, stopping.validation),
        ("early_stopping.refit", False, stopping.refit),
        ("warm_start", False, model.warm_start),
        ("oob_score", False, model.oob_score),
    ):
        if value is not none:
            raise ValueError(
                f"{name} must be {none} with early_stopping.folds, because the model is an average; got {value!r}."
            )
    if any(isinstance(callback, Checkpoint) for callback in model.callbacks or ()):
        raise ValueError(
            "callbacks must not have a Checkpoint with early_stopping.folds, because an average of models "
            "cannot be resumed."
        )


class Prepared(NamedTuple):
    """Encoded rows, their bins and the other inputs that all rounds on them share."""

    data: TrainingData
    binning: Binning
    hashes: NDArray[np.uint64] | None  # content hashes of the rows, if rows are sampled
    baseline: NDArray[np.float64] | None = None  # baseline of the fit that is continued
    forced: ForcedNodes | None = None  # the splits that every tree makes first

    def rounds(self, model: Any, rules: BoostingParameters) -> Rounds:
        """Return the training loop on the rows before its first round; `rules` sets rounds, rates and sampling."""
        growth = model._growth_parameters()
        if self.forced is not None:
            growth = replace(growth, forced_splits=self.forced)
        return Rounds(self.binning, self.data, model._loss, growth, rules, hashes=self.hashes, baseline=self.baseline)


def prepared(model: Any, data: TrainingData, rules: BoostingParameters, earlier: Any = None) -> Prepared:
    """Return the rows after target encoding, with bins, hashes, baseline and forced splits; check their target.

    A continued fit reuses the bins and the baseline of the fitted estimator `earlier`.
    """
    loss, comm = model._loss, data.comm
    loss.join(comm)
    loss.check_target(data.y)
    if earlier is None:
        loss.check_start(data.y)
    hashes = None
    if rules.sampling.draws:
        hashes = model._row_hashes(data, rules.n_threads)
    if earlier is not None and earlier._statistics is None and model._category_options().encoding == "auto":
        model._statistics = None  # no target encoding, even if a column now has more than 32 categories
    else:
        data = data._replace(X=model._learn_statistics(_with_encoding_targets(model, data), rules.seed).X)
    forced = forced_splits(model) if getattr(getattr(model, "growth", None), "forced_splits", None) else []
    if earlier is None:
        is_categorical, max_bins = model._is_categorical, bins_of_features(model)
        binning = learn_binning(data.X, data.sample_weight, max_bins, is_categorical, rules.n_threads, comm)
        if forced and stored_binning(data.X, max_bins) is None:
            binning = with_forced_edges(forced, binning, max_bins)
    else:
        model._check_same_statistics(earlier._statistics_arrays())
        binning = earlier._ensemble.binning
    if rules.linear_l2 is not None and loss.renews_leaves:
        raise ValueError(
            "loss must have a hessian with linear_leaves=True, as 'squared_error', 'expectile' and 'log_cosh' "
            f"do; got {model.loss!r}."
        )
    if loss.n_outputs > 1 and data.y.ndim == 2:
        data = data._replace(y=np.asfortranarray(data.y))  # losses read the targets column by column
    baseline = None if earlier is None else earlier._ensemble.baseline
    return Prepared(data, binning, hashes, baseline, forced_nodes(forced, binning) if forced else None)


def _with_encoding_targets(model: Any, data: TrainingData) -> TrainingData:
    """Return the rows with the targets for target encoding, which are residuals if `init_score` was passed.

    With a single raw prediction the residual is the Newton step of each row, weighted by its hessian. For counts, the
    category mean is then the relative excess over the expected count. Censored times have no mean, so their negative
    gradients before the first round are averaged instead.
    """
    if isinstance(model._loss, LambdaRank):
        return data._replace(y=np.ascontiguousarray(data.y[:, RELEVANCE]))
    loss, raw = copy(model._loss), data.offset  # the original keeps its state
    if loss.has_censored_targets and raw is None:
        raw = np.repeat(loss.start(data.y, data.sample_weight)[:, None], len(data.y), axis=1)
    if raw is None or loss.n_outputs > 1 or (data.y.ndim > 1 and not loss.has_censored_targets):
        return data
    if loss.renews_leaves:
        return data._replace(y=loss.residuals(data.y, raw, 0))
    slopes = np.ones((2, 1, len(data.y)), dtype=np.float32)
    loss.start_round(data.y, raw, data.sample_weight)
    loss.gradients(data.y, raw, slopes[0], slopes[1])
    if loss.has_censored_targets:
        return data._replace(y=-slopes[0, 0].astype(np.float64))
    slope = np.clip(slopes[0, 0].astype(np.float64), -_LARGEST_SLOPE, _LARGEST_SLOPE)
    hessian = np.clip(slopes[1, 0].astype(np.float64), 1 / _LARGEST_SLOPE, _LARGEST_SLOPE)
    weight = hessian if data.sample_weight is None else hessian * data.sample_weight
    weight_before_classes = data.sample_weight if data.weight_before_classes is None else data.weight_before_classes
    return data._replace(y=-slope / hessian, sample_weight=weight, weight_before_classes=weight_before_classes)


# Textbook gradient boosting: every split that lowers the squared error, without regularization or smoothing.
TEXTBOOK: dict[str, Any] = {
    "max_bins": 65_535,
    "max_leaf_nodes": None,
    "max_depth": 3,
    "min_samples_leaf": 1,
    "max_features": 1.0,
    "growth": Growth(split_criterion="squared_error", min_child_weight=0.0, rows_per_threshold=None),
    "l2_regularization": 0.0,
    "split_penalty": 0.0,
    "categories": Categories(encoding="partition", smoothing=0.0, l2=0.0),
}

# For each quality, the parameters that differ from the defaults.
QUALITIES: dict[str, dict[str, Any]] = {
    "fast": {"n_estimators": 40, "learning_rate": 0.2},
    "default": {},
    "best": {
        "n_estimators": 10_000,
        "learning_rate": 0.05,
        "subsample": 0.8,
        "max_features": 1.0,
        "max_features_per_tree": 0.7,
        "n_iter_no_change": 100,
    },
}
N_FOLDS = 8
_QUALITY = one_of(*QUALITIES)
_SECONDS = real(0, open_low=True) | NONE


def textbook(cls: Any, **parameters: Any) -> Any:
    """Return an estimator for textbook gradient boosting (Friedman 2001).

    The model starts at the mean of y, or at the log odds. Leaf values are the means of the residuals, or
    sum(r) / sum(p (1 - p)) for the log loss. Trees are fitted to the residuals by least squares, accept every split
    that lowers the squared error down to `max_depth`, and are shrunk by `learning_rate`. Columns with at most 65 535
    distinct values have a bin for each value, so all splits of the training rows are considered.

    Parameters
    ----------
    **parameters
        Parameters of the class, which override the textbook settings. A record such as `growth` replaces the whole
        textbook record; use ``set_params(growth__max_delta_step=1.0)`` to change a single option.

    Examples
    --------
    >>> from fastens import GradientBoostingClassifier, GradientBoostingRegressor
    >>> X = [[1.0], [2.0], [3.0], [4.0]]
    >>> model = GradientBoostingRegressor.textbook(n_estimators=2, learning_rate=0.5, max_depth=1)
    >>> model.fit(X, [1.0, 1.0, 3.0, 3.0]).predict([[1.0], [4.0]])
    array([1.25, 2.75])
    >>> model = GradientBoostingClassifier.textbook(n_estimators=1, learning_rate=0.5, max_depth=1)
    >>> model.fit(X, [0, 0, 1, 1]).decision_function([[1.0], [4.0]])
    array([-1.,  1.])
    """
    return cls(**(TEXTBOOK | parameters))


def with_quality(cls: Any, quality: str, time_limit: float | None = None, **parameters: Any) -> Any:
    """Return an estimator with a preset trade-off between training time and accuracy.

    "best" is a vote of boosting with the defaults, with more and with less regularisation, extra trees and a random
    forest. Greedy selection on out-of-fold predictions chooses the weights (Caruana et al. 2004). They are shrunk
    towards the defaults as far as the gain may be chance.

    Parameters
    ----------
    quality : {"fast", "default", "best"}
        Name of the preset. "fast": 40 rounds with a learning rate of 0.2. "default": the default parameters. "best":
        the ensemble, if all members have the parameters given (`random_state`, `n_jobs`, `weight_type`,
        `categorical_features`, `text_features`, `categories` and `max_bins`). With other parameters, such as `loss`,
        "best" is the mean of 8 boosted models with a low learning rate, each stopped early on one fold.
    time_limit : float or None, default=None
        Time limit of `fit` in seconds, for "best" only. If None, the time is not limited.
    **parameters
        Parameters of the class, which override the preset.

    Raises
    ------
    ValueError
        If the quality is unknown, or if time_limit is not positive, without "best" or with `early_stopping`.

    References
    ----------
    R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes (2004). Ensemble selection from libraries of models. ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor.with_quality("best", time_limit=5.0, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > GradientBoostingRegressor().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    True
    """
    _QUALITY.check("quality", quality)
    _SECONDS.check("time_limit", time_limit)
    preset = dict(QUALITIES[quality])
    if isinstance(sampling := parameters.get("sampling"), Goss) or sampling == "goss":
        preset.pop("subsample", None)  # GOSS replaces `subsample` by `top_rate` and `other_rate`
    if parameters.get("early_stopping") is False:
        preset.pop("n_iter_no_change", None)
    if time_limit is not None and "early_stopping" in parameters:
        raise ValueError(
            "time_limit must be None if early_stopping is passed. Use early_stopping=EarlyStopping(time_limit=...)."
        )
    if quality == "best":
        # The ensemble is built of boosting and forests, so it is imported by name, from a package above this one.
        ensemble = import_module("fastens.combining.voting").best_ensemble(cls, time_limit, parameters)
        if ensemble is not None:
            return ensemble
        stopping = EarlyStopping(folds=N_FOLDS, select_pruning=True, time_limit=time_limit)
        parameters = {"early_stopping": stopping} | parameters
    elif time_limit is not None:
        raise ValueError(f"time_limit must be None with quality={quality!r}; got {time_limit!r}. Use quality='best'.")
    return cls(**(preset | parameters))


CALLBACKS = Rule(
    "a list of callables", lambda value: isinstance(value, list | tuple) and all(callable(each) for each in value)
)
RATE = real(0, 1e30, open_low=True)
RATES = Rule(
    "a list with one such number for each round, or a function that returns it for the round index",
    lambda value: (
        callable(value)
        or (isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1 and all(map(RATE.holds, value)))
    ),
)
NUMBER_OF_FEATURES = whole(1) | real(0, 1, open_low=True) | one_of("sqrt", "log2", None)
CUSTOM = Rule("a function or object that returns gradients and hessians", is_custom)

AUTO = FLAG | one_of("auto")
# Conditions under which the parameters of early stopping have an effect.
STOPS = (Need("early_stopping", "early_stopping is True or 'auto'", bool),)
SPLITS = (
    Need("early_stopping", "early_stopping is True", lambda value: not isinstance(value, str) and bool(value)),
    Need(
        "early_stopping",
        "early_stopping has no validation splitter",
        lambda value: getattr(value, "validation", None) is None,
    ),
)
