"""Option records for rarely needed settings, such as `Growth` and `EarlyStopping`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar, Self, TypeAlias, dataclass_transform

from fastens.params.foreign_names import add_option, hint, option_hint
from fastens.params.rules import (
    ANYTHING,
    FLAG,
    NONE,
    POSITIVE,
    SPLIT_PRIOR,
    Rule,
    declared,
    instance,
    one_of,
    parameter,
    real,
    whole,
)
from fastens.params.types import ColumnChoice, SplitPrior, Splitter

SPLITTER = Rule(
    "a splitter of scikit-learn", lambda value: callable(getattr(value, "split", None)) and not isinstance(value, str)
)


def with_hints(kind: type, module: str = "", estimator: str = "") -> None:
    """Wrap the constructor of an option class in place: its TypeError for an unknown option gets a hint.

    If `estimator` is the name of a class in `module`, hints can also name the parameters of that estimator.
    """
    made: Any = kind
    constructor = made.__init__
    known_options = list(signature(constructor).parameters)

    @wraps(constructor)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in [name for name in kwargs if name not in known_options]:
            help_ = option_hint(name, kind.__name__)
            if not help_ and estimator:
                of_estimator = signature(getattr(import_module(module), estimator)).parameters
                help_ = hint(name, (), of_estimator).replace("the constructor", "the estimator")
            help_ = help_ or hint(name, (), known_options)
            raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}.{help_}")
        constructor(self, *args, **kwargs)

    made.__init__ = checked


@dataclass_transform(frozen_default=True, field_specifiers=(parameter,))
@dataclass(frozen=True, repr=False)
class Options:
    """A record of options that is the value of a single parameter of an estimator.

    Subclasses are frozen dataclasses whose fields are declared with `parameter`. If a user passes the name of a field,
    or its name in another library, to an estimator, the error suggests the field. `of` is the parameter of the
    estimator that holds the record.
    """

    # All subclasses by name: the record types that a saved model may contain.
    kinds: ClassVar[dict[str, type[Options]]] = {}

    def __init_subclass__(cls, of: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, repr=False)(cls)
        with_hints(cls, "fastens.boosting.regressor", "GradientBoostingRegressor")
        Options.kinds[cls.__name__] = cls
        for each in fields(cls):
            add_option(f"{of}={cls.__name__}({each.name}=...)", [each.name, *each.metadata["elsewhere"].split()])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name, as scikit-learn's `clone` and `get_params` expect.

        Parameters
        ----------
        deep : bool, default=True
            Ignored, because options do not contain estimators.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def replaced(self, options: Mapping[str, Any]) -> Self:
        """Return a copy with some options replaced, by name; raise ValueError for unknown names."""
        current_options = self.get_params()
        for name in options:
            if name not in current_options:
                kind = type(self).__name__
                help_ = option_hint(name, kind) or f" It has {', '.join(current_options)}."
                raise ValueError(f"{kind} has no option {name!r}.{help_}")
        return type(self)(**{**current_options, **options})

    def __repr__(self) -> str:
        """Return the constructor call with all options that differ from their defaults."""
        options = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        shown = ", ".join(f"{name}={value!r}" for name, value, default in options if repr(value) != repr(default))
        return f"{type(self).__name__}({shown})"

    def check(self, parameter: str) -> None:
        """Raise ValueError for the first invalid option; `parameter` is the parameter that holds the record."""
        for name, rule in declared(self, "rule").items():
            rule.check(f"{parameter}.{name}", getattr(self, name))


# Boosting rounds --------------------------------------------------


class Dart(Options, of="boosting"):
    """DART: dropout of earlier trees in each boosting round (Rashmi & Gilad-Bachrach 2015).

    Parameters
    ----------
    rate_drop : float, default=0.1
        Probability that an earlier round is dropped. Larger values regularise more.
    skip_drop : float, default=0.5
        Probability that a round skips dropout and uses all earlier trees.
    max_drop : int or None, default=50
        Maximum number of rounds dropped at once. If None, the number is not limited.
    normalize : {"tree", "forest"}, default="tree"
        Weight of a new tree. "tree": equal to the weight of each dropped tree. "forest": equal to the total weight of
        the dropped trees.

    Examples
    --------
    >>> from fastens import Dart, GradientBoostingRegressor
    >>> GradientBoostingRegressor(boosting=Dart(rate_drop=0.2)).get_params()["boosting__rate_drop"]
    0.2
    """

    rate_drop: float = parameter(real(0, 1), default=0.1, elsewhere="drop_rate dropout_rate")
    skip_drop: float = parameter(real(0, 1), default=0.5)
    max_drop: int | None = parameter(whole(1) | NONE, default=50)
    normalize: str = parameter(one_of("tree", "forest"), default="tree", elsewhere="dart_normalize normalize_type")


class Goss(Options, of="sampling"):
    """Gradient-based one-side sampling: all rows with large gradients and a sample of the others (Ke et al. 2017).

    The sampled rows with small gradients are weighted up to represent the rows that were not drawn.

    Parameters
    ----------
    top_rate : float, default=0.2
        Fraction of the rows, those with the largest gradients, that are always used.
    other_rate : float, default=0.1
        Number of rows sampled from the others, as a fraction of all rows. `top_rate` + `other_rate` must be at most 1.

    Examples
    --------
    >>> from fastens import Goss, GradientBoostingRegressor
    >>> model = GradientBoostingRegressor(sampling=Goss(top_rate=0.3))
    """

    top_rate: float = parameter(real(0, 1, open_high=True), default=0.2)
    other_rate: float = parameter(real(0, 1, open_low=True), default=0.1)

    def check(self, parameter: str) -> None:
        """Raise ValueError for invalid options, including rates whose sum is above 1; `parameter` holds the record."""
        super().check(parameter)
        if self.top_rate + self.other_rate > 1:
            raise ValueError(
                f"{parameter}.top_rate + {parameter}.other_rate must be at most 1; "
                f"got {self.top_rate} + {self.other_rate}."
            )


class Mvs(Options, of="sampling"):
    """Minimal variance sampling, whose sampling probabilities grow with the gradients (Ibragimov & Gusev 2019).

    Sampled rows are weighted by the inverse of their probability. `subsample` is the expected fraction of rows drawn
    and must be below 1.

    Parameters
    ----------
    regularization : float or None, default=None
        Weight of the squared hessian relative to the squared gradient. If None, it is the square of the ratio of the
        mean absolute gradient to the mean hessian.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, Mvs
    >>> model = GradientBoostingRegressor(sampling=Mvs(regularization=1.0), subsample=0.5)
    """

    regularization: float | None = parameter(real(0) | NONE, default=None, elsewhere="mvs_lambda mvs_reg")


class EarlyStopping(Options, of="early_stopping"):
    """Early stopping on held-out rows or on the `X_val` passed to `fit`.

    Parameters
    ----------
    validation : splitter or None, default=None
        A scikit-learn splitter, such as GroupShuffleSplit or TimeSeriesSplit. The last of its splits gives the training
        and validation rows and replaces `validation_fraction`; pass `groups` to `fit` if the splitter needs them. Rows
        of weight 0 are removed before the split, except that a PredefinedSplit has an entry for them too. If None,
        validation rows are drawn at random.
    refit : bool, default=False
        If True, train again on all rows with the best number of rounds.
    folds : int or None, default=None
        Number of cross-validation folds. One model per fold is trained on the other folds and uses its fold for early
        stopping. The final model is the mean of these models: it has all of their trees, with leaf values divided by
        the number of folds, so every row contributes to training. The table is binned once. `folds` cannot be combined
        with `validation` or `refit`. If None, a single model is trained.
    select_pruning : bool, default=False
        If True, train the folds a second time with less pruning (`min_samples_leaf=2, split_penalty=1.0`) and keep
        the models with the lower loss on the held-out rows. The second run is skipped if one of these parameters is
        set, if the loss does not estimate the noise, or if there is not enough time left. It requires `folds`.
    time_limit : float or None, default=None
        Number of seconds after which `fit` does not start another round, including the time for reading the table.
        Folds share the remaining time equally, and `refit` reserves slightly more than half of the time for the second
        training. With `folds`, the `learning_rate` is raised if the limit allows too few rounds at the given rate. If
        None, the time is not limited.

    Examples
    --------
    >>> from fastens import EarlyStopping, GradientBoostingClassifier
    >>> model = GradientBoostingClassifier(early_stopping=EarlyStopping(refit=True), eval_metric="roc_auc")
    >>> mean = GradientBoostingClassifier(early_stopping=EarlyStopping(folds=8, time_limit=60))
    """

    validation: Splitter | None = parameter(SPLITTER | NONE, default=None)
    refit: bool = parameter(FLAG, default=False)
    folds: int | None = parameter(whole(2) | NONE, default=None)
    select_pruning: bool = parameter(FLAG, default=False)
    time_limit: float | None = parameter(real(0, open_low=True) | NONE, default=None)


# Tree growth --------------------------------------------------


class Growth(Options, of="growth"):
    """Rarely needed settings for growing the trees of boosting.

    Parameters
    ----------
    split_criterion : {"newton", "squared_error"}, default="newton"
        Criterion for choosing splits. "newton": the second-order gain (Chen & Guestrin 2016). "squared_error": the
        squared error of the negative gradients, as if all hessians were 1 (Friedman 2001, algorithms 5 and 6).
        `min_child_weight` then counts rows. Leaf values are still Newton steps, but long steps are not damped, and
        `split_penalty` is 0 by default. "squared_error" does not support linear leaves, ranking and survival analysis.
    min_child_weight : float, default=1e-3
        Minimum sum of hessians in a leaf. If the mean sample weight is below 1, the minimum is multiplied by it.
    min_weight_leaf : float, default=0
        Minimum sum of sample weights in a leaf.
    min_gain_to_split : float, default=0
        Splits must have a gain above this value. Larger values give smaller trees.
    rows_per_threshold : int, "auto" or None, default="auto"
        Number of rows per candidate threshold: a node evaluates one threshold of a numeric feature for this many of
        its rows, and at least two. The thresholds that leave enough rows on both sides are divided into equal ranges,
        and one is drawn at random from each (cf. Geurts, Ernst & Wehenkel 2006, who draw a single threshold). Larger
        values evaluate fewer thresholds, so that trees differ more and splits overfit less. If None, all thresholds
        are evaluated. "auto": 100 for log losses with constant leaves, None otherwise.
    path_smooth : float, default=0
        Shrinkage of the value of a node towards the value of its parent, just as `l2_regularization` shrinks it
        towards 0. Larger values smooth more.
    max_delta_step : float or None, default=None
        Maximum absolute value of a leaf, or of its linear model, on the scale of raw predictions and before the
        learning rate is applied. If None, leaf values are not limited.
    forced_splits : dict, path or None, default=None
        Splits that every tree makes first, or the path of a JSON file that holds them. They are nested dicts,
        ``{"feature": "age", "threshold": 30, "left": {...}, "right": {...}}``, where `feature` is the name or index of
        a column. Rows up to the threshold go left; for a categorical column, the threshold is a category or a list of
        categories that go left. Forced splits are made whatever their gain and are not pruned. A split that breaks a
        limit such as `min_samples_leaf` is omitted, together with the forced splits below it. If None, trees choose all
        splits.

    Examples
    --------
    >>> from fastens import GradientBoostingClassifier, Growth
    >>> model = GradientBoostingClassifier(growth=Growth(min_child_weight=1.0))
    """

    split_criterion: str = parameter(
        one_of("newton", "squared_error"),
        default="newton",
        elsewhere="criterion split_evaluator score_function splitrule",
    )
    min_child_weight: float = parameter(real(0), default=1e-3, elsewhere="min_sum_hessian_in_leaf min_sum_hessian")
    min_weight_leaf: float = parameter(real(0), default=0.0, elsewhere="min_weight_fraction_leaf")
    min_gain_to_split: float = parameter(
        real(0), default=0.0, elsewhere="gamma min_split_loss min_split_gain min_impurity_decrease min_impurity_split"
    )
    rows_per_threshold: int | str | None = parameter(
        whole(1) | one_of("auto", None), default="auto", elsewhere="extra_trees"
    )
    path_smooth: float = parameter(real(0), default=0.0, elsewhere="path_smoothing")
    max_delta_step: float | None = parameter(
        real(0, open_low=True) | NONE, default=None, elsewhere="max_leaf_output poisson_max_delta_step"
    )
    forced_splits: Mapping[str, Any] | str | os.PathLike[str] | None = parameter(
        instance((Mapping, str, os.PathLike), "a dict, the path of a JSON file") | NONE,
        default=None,
        elsewhere="forcedsplits_filename forced_splits_filename forced_splits_file",
    )


class LinearLeaves(Options, of="linear_leaves"):
    """Linear models in the leaves, fitted to the numeric features on the path of each leaf (Shi, Li & Li 2019).

    A row with a missing or infinite value in one of these features gets the constant value of the leaf. Therefore
    `monotonic_cst` is guaranteed only among finite values. Values outside the range of the training rows of a leaf are
    clipped to it. Linear models obey `max_delta_step`. With several targets, each target has its own trees.

    Parameters
    ----------
    l2 : float, default=10
        Ridge penalty on the slopes, for features scaled to unit variance within the leaf. It is added to the sum of
        hessians of the leaf; larger values give flatter models. If the mean sample weight is below 1, the penalty is
        multiplied by it.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, LinearLeaves
    >>> model = GradientBoostingRegressor(linear_leaves=LinearLeaves(l2=1.0))
    """

    l2: float = parameter(real(0), default=10.0, elsewhere="linear_lambda linear_l2")


def is_ngram_range(value: Any) -> bool:
    """Return True if a value is a pair of positive integers in ascending order."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    return is_pair and all(type(size) is int and size > 0 for size in value) and value[0] <= value[1]


def _is_separator(value: Any) -> bool:
    """Return True if a value is a separator of list items: non-empty text without letters and digits."""
    return isinstance(value, str) and value != "" and not any(sign.isalnum() for sign in value)


class Texts(Options, of="text_features"):
    """Columns of texts, and the terms that they are split into.

    Each text column becomes several numeric columns: the length of the text, and the number of occurrences of each
    term of the vocabulary. The vocabulary holds the terms that occur in most of the distinct texts of the training set.
    It does not depend on the target, on weights or on the order of the rows. In trees, columns with more than 32
    terms get an additional column: the sum of the mean targets of the terms of a text, minus the overall mean. With
    three or more classes, there is such a column for each class. It is cross-fitted like the target encoding of
    categories, and ``Categories(encoding="partition")`` turns it off.

    Parameters
    ----------
    columns : list of names or indices, mask, dict of analyzers by column, or None, default=None
        Columns of texts. A dict such as ``{"review": "word", "tags": ";"}`` replaces `analyzer` for each column. If
        None, there are none.
    analyzer : {"word", "char"} or a separator, default="word"
        Terms. "word": words of at least two letters or digits, in lower case. "char": character n-grams in lower case
        within words, including the spaces around them, for languages without spaces and for misspellings. A separator
        such as ";": the items of a list such as "tea;milk".
    ngram_range : pair of int, default=(1, 1)
        Minimum and maximum number of consecutive words or characters in a term. Items of lists ignore it.
    max_terms : int, default=10000
        Maximum number of terms of each column. Larger values include rarer terms and need more time and memory.

    Examples
    --------
    >>> from fastens import GradientBoostingClassifier, Texts
    >>> model = GradientBoostingClassifier(text_features=Texts(["review"], ngram_range=(1, 2), max_terms=3000))
    """

    columns: ColumnChoice | Mapping[Any, str] = parameter(ANYTHING, default=None)
    analyzer: str = parameter(
        one_of("word", "char") | Rule("a separator such as ';'", _is_separator), default="word", elsewhere="tokenizers"
    )
    ngram_range: tuple[int, int] = parameter(
        Rule("a pair of positive integers in ascending order", is_ngram_range), default=(1, 1)
    )
    max_terms: int = parameter(whole(1), default=10_000, elsewhere="max_dictionary_size")


# Columns of texts, with an analyzer for each column in a dict.
TextChoice: TypeAlias = ColumnChoice | Mapping[Any, str] | Texts


class Categories(Options, of="categories"):
    """Handling of categorical columns. Single trees, forests and AdaBoost support only the first three options.

    Parameters
    ----------
    encoding : {"auto", "partition", "target", "ordered"}, default="auto"
        Encoding of categorical columns. "partition": splits divide the categories into two sets. "target": target
        encoding with cross-fitting, in which each row gets the mean target of the rows of its category in the other
        folds. "ordered": ordered target encoding, in which each row gets the mean target of the rows of its category
        that precede it in a random order. With both target encodings, predictions use the mean over all training rows,
        and for three or more classes each class has a column. "auto": "target" for columns with more than 32 categories
        and "partition" for the others. Partitioned columns with more than `max_bins` categories keep the `max_bins` - 1
        most frequent ones and merge the others into one category, with a warning.
    missing : {"missing", "category"}, default="missing"
        Handling of missing values in categorical columns. "missing": they are treated as missing, as in numeric
        columns. "category": they form a separate category.
    unseen : {"average", "missing", "error"}, default="average"
        Handling of categories that were not seen in training. "average": if the column had no missing values in
        training, each split sends the category to a fixed side, chosen so that over all trees the prediction
        approximates the mean of both sides, weighted by their number of rows; otherwise the category is treated as
        missing. "missing": the category is treated as missing; if there were no missing values in training, it goes to
        the side with the larger weight. "error": predictions raise ValueError. With target encoding, an unseen category
        gets the mean over all rows.
    one_hot_max_size : int, default=2
        Maximum number of categories for one-hot splits, which separate one category from the others.
    min_samples : int or None, default=None
        Minimum number of rows of a category in a node. Rarer categories are pooled there and go to the same side of a
        split. If None, it is 10, or the minimum number of rows in a leaf if that is smaller.
    max_per_split : int or None, default=None
        Maximum number of categories on the side of a split that has fewer categories. If None, the number is not
        limited.
    smoothing : float, default=5
        Number of pseudo-rows with the average gradient that are added to each category before the categories of a node
        are sorted. Larger values move rare categories closer to the average.
    l2 : float, default=3
        Extra L2 regularization for splits into sets of categories, in units of rows with the average hessian. It is
        added to `l2_regularization` when the gain is computed.

    Examples
    --------
    >>> from fastens import Categories, GradientBoostingRegressor
    >>> model = GradientBoostingRegressor(categories=Categories(encoding="partition", smoothing=1.0))
    """

    encoding: str = parameter(
        one_of("auto", "partition", "target", "ordered"),
        default="auto",
        elsewhere="categorical_encoding simple_ctr combinations_ctr max_ctr_complexity",
    )
    missing: str = parameter(one_of("missing", "category"), default="missing", elsewhere="categorical_missing")
    unseen: str = parameter(one_of("average", "missing", "error"), default="average")
    one_hot_max_size: int = parameter(whole(0, 255), default=2, elsewhere="max_cat_to_onehot")
    min_samples: int | None = parameter(
        whole(1) | NONE, default=None, elsewhere="min_data_per_group min_samples_category"
    )
    max_per_split: int | None = parameter(
        whole(1) | NONE, default=None, elsewhere="max_cat_threshold max_categories_per_split"
    )
    smoothing: float = parameter(real(0), default=5.0, elsewhere="cat_smooth category_smoothing")
    l2: float = parameter(real(0), default=3.0, elsewhere="cat_l2 category_l2")


# Tree predictions --------------------------------------------------


class PosteriorAverage(Options, of="averaging"):
    """Posterior-weighted average over all prunings of each tree of a forest.

    Parameters
    ----------
    evidence : {"train", "oob"}, default="train"
        Rows on which the likelihood is computed. "train": the rows that a tree was grown on. "oob": its out-of-bag
        rows, conditional on the training rows.
    split_prior : {"search", "strict", "features"}, float, pair or None, default=None
        Prior probability that a node splits, as in `BayesTreeClassifier`. If None, it is 0.2 for random forest
        classifiers and 0.5 for extra-trees classifiers and for regression.
    temperature : float, default=1
        The likelihood is raised to the power of 1 / temperature. Larger values give the prior more influence.
    alpha : float, default=0.01
        For classification: pseudo-count of each class in a leaf. Larger values smooth the probabilities more.
    prior_weight : float, default=0.02
        For regression: weight of the prior mean of a leaf, in rows. The prior mean is the mean of all targets.
    prior_shape : float, default=1
        For regression: shape of the inverse gamma prior of the variance in a leaf. The prior has the weight of
        2 * `prior_shape` rows.
    prior_scale : float, default=0.02
        For regression: prior variance of the targets in a leaf, as a fraction of the variance of all targets.

    Examples
    --------
    >>> from fastens import PosteriorAverage, RandomForestClassifier
    >>> model = RandomForestClassifier(averaging=PosteriorAverage(alpha=0.1, split_prior="search"))
    """

    evidence: str = parameter(one_of("train", "oob"), default="train")
    split_prior: SplitPrior | None = parameter(SPLIT_PRIOR | NONE, default=None)
    temperature: float = parameter(POSITIVE, default=1.0)
    alpha: float = parameter(POSITIVE, default=0.01)
    prior_weight: float = parameter(POSITIVE, default=0.02)
    prior_shape: float = parameter(POSITIVE, default=1.0)
    prior_scale: float = parameter(POSITIVE, default=0.02)


# Losses with options --------------------------------------------------


class HuberLoss(Options, of="loss"):
    """Huber loss: squared error for small residuals and absolute error for large ones (Huber 1964).

    Parameters
    ----------
    alpha : float, default=0.9
        Quantile of the absolute residuals above which the loss is linear. Smaller values make the loss more robust.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, HuberLoss
    >>> model = GradientBoostingRegressor(HuberLoss(alpha=0.8))
    """

    alpha: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.9, elsewhere="huber_slope")


class TweedieLoss(Options, of="loss"):
    """Tweedie deviance with a log link, for non-negative targets with many zeros.

    Parameters
    ----------
    variance_power : float, default=1.5
        Power of the mean that the variance is proportional to, strictly between 1 (Poisson) and 2 (gamma).

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, TweedieLoss
    >>> model = GradientBoostingRegressor(TweedieLoss(variance_power=1.2))
    """

    variance_power: float = parameter(
        real(1, 2, open_low=True, open_high=True), default=1.5, elsewhere="tweedie_variance_power tweedie_power power"
    )


class LambdaRankLoss(Options, of="loss"):
    """LambdaMART loss, which weights each pair of documents by its change of a metric (Burges 2010).

    Parameters
    ----------
    metric : {"ndcg", "map", "pairs"}, default="ndcg"
        Metric whose change weights the pairs. "ndcg": NDCG. "map": mean average precision, for which documents with a
        relevance above 0 are relevant. "pairs": the number of pairs in the right order, so that all pairs have the same
        weight (RankNet).
    truncation_level : int or None, default=30
        Number of top positions whose documents are paired with all documents below them. Choose a value slightly
        larger than `ndcg_at`. If None, all pairs are used.
    label_gain : {"exponential", "linear"}, default="exponential"
        Gain of a document with relevance r: 2**r - 1 ("exponential") or r ("linear"). Affects NDCG only.
    normalize : bool, default=True
        If True, pairs with similar scores get more weight than pairs with distant scores, and queries with many pairs
        do not dominate other queries.

    Examples
    --------
    >>> from fastens import GradientBoostingRanker, LambdaRankLoss
    >>> model = GradientBoostingRanker(LambdaRankLoss(label_gain="linear"))
    """

    metric: str = parameter(one_of("ndcg", "map", "pairs"), default="ndcg")
    truncation_level: int | None = parameter(
        whole(1) | NONE, default=30, elsewhere="lambdarank_truncation_level max_position lambdarank_num_pair_per_sample"
    )
    label_gain: str = parameter(one_of("exponential", "linear"), default="exponential")
    normalize: bool = parameter(FLAG, default=True, elsewhere="lambdarank_norm lambdarank_normalization")


class AFTLoss(Options, of="loss"):
    """Accelerated failure time loss: log(time) = prediction + scale * error (Barnwal, Cho & Hocking 2020).

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}, default="normal"
        Distribution of the error. With "extreme", the times follow a Weibull distribution.
    scale : float, default=1.0
        Scale of the error.

    Examples
    --------
    >>> from fastens import AFTLoss, GradientBoostingSurvival
    >>> model = GradientBoostingSurvival(AFTLoss("logistic", scale=0.5))
    """

    distribution: str = parameter(
        one_of("normal", "logistic", "extreme"), default="normal", elsewhere="aft_loss_distribution"
    )
    scale: float = parameter(real(0, open_low=True), default=1.0, elsewhere="aft_loss_distribution_scale")


# The option records that plain values of parameters stand for.
SHORT_FORMS: dict[str, dict[Any, Options]] = {
    "boosting": {"dart": Dart()},
    "sampling": {"goss": Goss(), "mvs": Mvs()},
    "early_stopping": {True: EarlyStopping(), "auto": EarlyStopping()},
    "growth": {None: Growth()},
    "linear_leaves": {True: LinearLeaves()},
    "categories": {None: Categories()},
    "averaging": {"auto": PosteriorAverage(), "posterior": PosteriorAverage()},
    "loss": {
        "huber": HuberLoss(),
        "tweedie": TweedieLoss(),
        "lambdarank": LambdaRankLoss(),
        "map": LambdaRankLoss("map"),
        "pairwise": LambdaRankLoss("pairs", None),
        "aft": AFTLoss(),
    },
}


def options_in(parameter: str, value: Any) -> Any:
    """Return the option record that `value` is, or is shorthand for in `parameter`; None if it is neither."""
    if isinstance(value, Options):
        return value
    is_short = value is None or isinstance(value, str) or FLAG.holds(value)
    return SHORT_FORMS.get(parameter, {}).get(value) if is_short else None


def record(*kinds: type[Options]) -> Rule:
    """Return a rule that requires an instance of one of the option classes."""
    return Rule(" or ".join(kind.__name__ for kind in kinds), lambda value: isinstance(value, kinds))
