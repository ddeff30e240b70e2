"""Records of rare options, such as `Growth` and `EarlyStopping`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform

from fastens.params.rules import (
    ANYTHING,
    FLAG,
    NONE,
    POSITIVE,
    SPLIT_PRIOR,
    Rule,
    declared,
    one_of,
    parameter,
    real,
    whole,
)

SPLITTER = Rule(
    "a splitter of scikit-learn", lambda value: callable(getattr(value, "split", None)) and not isinstance(value, str)
)


@dataclass_transform(frozen_default=True, field_specifiers=(parameter,))
@dataclass(frozen=True, repr=False)
class Options:
    """Options that stand in one parameter of an estimator.

    Subclasses are frozen dataclasses, whose fields are declared by `parameter`.
    """

    # By name, what a saved model may hold.
    kinds: ClassVar[dict[str, type[Options]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, repr=False)(cls)
        Options.kinds[cls.__name__] = cls

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; scikit-learn's `clone` and `get_params` read them.

        Parameters
        ----------
        deep : bool, default=True
            Not used: options hold no estimators.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def replaced(self, options: Mapping[str, Any]) -> Any:
        """Return a record with some other values; ValueError for names that it does not have."""
        known = self.get_params()
        for name in options:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no option {name!r}; it has {', '.join(known)}.")
        return type(self)(**{**known, **options})

    def __repr__(self) -> str:
        """The options that are not the defaults, as they were given."""
        given = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        shown = ", ".join(f"{name}={value!r}" for name, value, default in given if repr(value) != repr(default))
        return f"{type(self).__name__}({shown})"

    def check(self, parameter: str) -> None:
        """Raise ValueError for the first option that breaks its rule; `parameter` is where the record stands."""
        for name, rule in declared(self, "rule").items():
            rule.check(f"{parameter}.{name}", getattr(self, name))


# How rounds of boosting go --------------------------------------------------


class Dart(Options):
    """DART: rounds of boosting leave out some of the trees before them (Rashmi & Gilad-Bachrach 2015).

    Parameters
    ----------
    rate_drop : float, default=0.1
        The chance of each earlier round to be left out.
    skip_drop : float, default=0.5
        The chance of a round to leave out none.
    max_drop : int or None, default=50
        Most rounds left out at once.
    normalize : {"tree", "forest"}, default="tree"
        Whether a new tree weighs as much as each of those left out, or as all of them together.

    Examples
    --------
    >>> from fastens import Dart, GradientBoostingRegressor
    >>> GradientBoostingRegressor(boosting=Dart(rate_drop=0.2)).get_params()["boosting__rate_drop"]
    0.2
    """

    rate_drop: float = parameter(real(0, 1), default=0.1)
    skip_drop: float = parameter(real(0, 1), default=0.5)
    max_drop: int | None = parameter(whole(1) | NONE, default=50)
    normalize: str = parameter(one_of("tree", "forest"), default="tree")


class Goss(Options):
    """Gradient-based one-side sampling: all rows with large gradients, and some of the others (Ke et al. 2017).

    Those of the others that are drawn count for more.

    Parameters
    ----------
    top_rate : float, default=0.2
        The share of the rows with the largest gradients.
    other_rate : float, default=0.1
        How many of the others are drawn, as a share of all rows.

    Examples
    --------
    >>> from fastens import Goss, GradientBoostingRegressor
    >>> model = GradientBoostingRegressor(sampling=Goss(top_rate=0.3))
    """

    top_rate: float = parameter(real(0, 1, open_high=True), default=0.2)
    other_rate: float = parameter(real(0, 1, open_low=True), default=0.1)

    def check(self, parameter: str) -> None:
        """Raise ValueError for options that break their rules."""
        super().check(parameter)
        if self.top_rate + self.other_rate > 1:
            raise ValueError(
                f"{parameter}.top_rate + {parameter}.other_rate must be at most 1; "
                f"got {self.top_rate} + {self.other_rate}."
            )


class Mvs(Options):
    """Minimal variance sampling: the chance of a row grows with its gradient (Ibragimov & Gusev 2019).

    A row that is drawn counts for more the smaller its chance was. `subsample` is the share of the rows drawn.

    Parameters
    ----------
    regularization : float or None, default=None
        What the squared hessian counts beside the squared gradient. None: the square of the mean gradient's size over
        the mean hessian.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, Mvs
    >>> model = GradientBoostingRegressor(sampling=Mvs(regularization=1.0), subsample=0.5)
    """

    regularization: float | None = parameter(real(0) | NONE, default=None)


class EarlyStopping(Options):
    """Early stopping on rows held out, or on the X_val given to `fit`.

    Parameters
    ----------
    eval_metric : str, callable or list of such, default="loss"
        What the rows are measured by: "loss", names of scikit-learn's scorers, scorers, and functions of (y,
        predictions), the predictions being probabilities in classification (of the second of two classes), that return
        a number, better if smaller, or (name, number, whether larger is better). Functions that scikit-learn calls
        ``..._score``, such as `r2_score`, are maximized. The first one decides when to stop.
    validation : splitter or None, default=None
        A splitter of scikit-learn, such as GroupShuffleSplit or TimeSeriesSplit, whose last split gives the rows to
        train on and those to validate on, in place of `validation_fraction`; `fit` takes `groups` for it. It splits the
        rows that have a weight; a PredefinedSplit counts those of weight 0 too.
    refit : bool, default=False
        Train again on all rows for the best number of rounds.
    folds : int or None, default=None
        Train so many models, each on all rows but those of one fold, which it stops early by. The model is their mean:
        all their trees, with values divided by the number of folds. Every row is trained on. The table is binned once.
        In place of `validation` and `refit`.
    choose_pruning : bool, default=False
        Train the folds once more with less pruning (`min_samples_leaf=2, split_penalty=1.0`), where these are not given
        and the noise is measured, and keep the models that do better on the rows held out. It is left out where there
        is not time for it.
    time_limit : float or None, default=None
        Seconds of `fit`, reading the table included, after which no further round begins. Folds get equal shares of
        what is left, and the rounds before `refit` somewhat less than half. Where the rounds that there is time for
        would not get far at `learning_rate`, folds raise it.

    Examples
    --------
    >>> from fastens import EarlyStopping, GradientBoostingClassifier
    >>> model = GradientBoostingClassifier(early_stopping=EarlyStopping(eval_metric="roc_auc", refit=True))
    >>> mean = GradientBoostingClassifier(early_stopping=EarlyStopping(folds=8, time_limit=60))
    """

    eval_metric: Any = parameter(ANYTHING, default="loss")
    validation: Any = parameter(SPLITTER | NONE, default=None)
    refit: bool = parameter(FLAG, default=False)
    folds: int | None = parameter(whole(2) | NONE, default=None)
    choose_pruning: bool = parameter(FLAG, default=False)
    time_limit: float | None = parameter(real(0, open_low=True) | NONE, default=None)


# How trees grow --------------------------------------------------


class Growth(Options):
    """Rarely needed rules of how the trees of boosting grow.

    Parameters
    ----------
    split_criterion : {"newton", "squared_error"}, default="newton"
        What trees are chosen by. "newton": the second-order gain (Chen & Guestrin 2016). "squared_error": that of the
        negative gradients, r, as if all hessians were 1, so that `min_child_weight` counts rows; leaves are the same
        Newton steps, but not cut where they are long (see `max_delta_step`), and there is no penalty of splits unless
        it is given (Friedman 2001, algorithms 5 and 6). Not with linear leaves, ranking and survival.
    min_child_weight : float, default=1e-3
        Smallest sum of hessians in a leaf; where the mean weight of the rows is below 1, times that mean.
    min_weight_leaf : float, default=0
        Smallest sum of sample weights in a leaf.
    min_gain_to_split : float, default=0
        A split must gain more than this.
    rows_per_threshold : int, "auto" or None, default="auto"
        A node looks at one threshold of a numeric feature for so many of its rows, and at two at least: each is drawn
        at random from one of as many equal parts of those that leave enough rows on both sides (cf. Geurts, Ernst &
        Wehenkel 2006, who draw one). Trees then differ, and the best of few is less the luck of the rows. None: at all.
        "auto": 100 with log losses and constant leaves, None otherwise.
    path_smooth : float, default=0
        Pulls the value of a node towards that of its parent, as `l2_regularization` pulls it towards 0.
    max_delta_step : float or None, default=None
        Largest absolute value of a leaf, or of its linear model, on the scale of raw predictions and before the
        learning rate.

    Examples
    --------
    >>> from fastens import GradientBoostingClassifier, Growth
    >>> model = GradientBoostingClassifier(growth=Growth(min_child_weight=1.0))
    """

    split_criterion: str = parameter(one_of("newton", "squared_error"), default="newton")
    min_child_weight: float = parameter(real(0), default=1e-3)
    min_weight_leaf: float = parameter(real(0), default=0.0)
    min_gain_to_split: float = parameter(real(0), default=0.0)
    rows_per_threshold: int | str | None = parameter(whole(1) | one_of("auto", None), default="auto")
    path_smooth: float = parameter(real(0), default=0.0)
    max_delta_step: float | None = parameter(real(0, open_low=True) | NONE, default=None)


class LinearLeaves(Options):
    """Leaves that are linear models of the numeric features on their paths (Shi, Li & Li 2019).

    A row with a missing or infinite value in one of a leaf's features gets what the leaf would add without the line:
    `monotonic_cst` holds among finite values.

    Parameters
    ----------
    l2 : float, default=10
        The ridge penalty of these models: added to the sum of hessians of a leaf where slopes are found, by features of
        variance 1 there. Where the mean weight of the rows is below 1, times that mean.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, LinearLeaves
    >>> model = GradientBoostingRegressor(linear_leaves=LinearLeaves(l2=1.0))
    """

    l2: float = parameter(real(0), default=10.0)


class Categories(Options):
    """How trees see categorical columns; single trees, forests and AdaBoost have the first three options.

    Parameters
    ----------
    encoding : {"auto", "partition", "target", "ordered"}, default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of the other rows of its category: those of the other parts of the rows ("target"), or
        those that come before it in a random order ("ordered"); rows to predict for get the mean of all. With three or
        more classes each has a column. "auto": "target" for columns of more than 32 categories and "partition" for the
        others. Columns to partition keep their `max_bins` - 1 most frequent categories; if there are more than
        `max_bins`, the others are treated as one category, with a warning.
    missing : {"missing", "category"}, default="missing"
        Whether a missing value in a categorical column is treated as missing, as one never seen is, or is a category
        of its own.
    unseen : {"average", "missing", "error"}, default="average"
        What a category is treated as that `fit` has not seen. "average": at the splits of columns that had no missing
        values in training it takes the sides that give it, over all trees, the mean of both sides, weighted by their
        rows; elsewhere it is treated as missing. "missing": it is treated as missing, and without missing values in
        training it takes the side with more weight. "error": predictions raise ValueError. With target encoding its
        mean is the mean of all rows.
    one_hot_max_size : int, default=2
        Columns of no more categories split them off one by one.
    min_samples : int or None, default=None
        Categories with fewer rows in a node are pooled there: a split sends them all to the same side. None: 10,
        or the fewest rows of a leaf where that is less.
    max_per_split : int or None, default=None
        Most categories on the side of a split that has fewer of them.
    smoothing : float, default=5
        Rows of average gradient that each category is given before the categories of a node are put in order.
    l2 : float, default=3
        Added to `l2_regularization` in the gain of splits into sets of categories, in rows of average hessian.

    Examples
    --------
    >>> from fastens import Categories, GradientBoostingRegressor
    >>> model = GradientBoostingRegressor(categories=Categories(encoding="partition", smoothing=1.0))
    """

    encoding: str = parameter(one_of("auto", "partition", "target", "ordered"), default="auto")
    missing: str = parameter(one_of("missing", "category"), default="missing")
    unseen: str = parameter(one_of("average", "missing", "error"), default="average")
    one_hot_max_size: int = parameter(whole(0, 255), default=2)
    min_samples: int | None = parameter(whole(1) | NONE, default=None)
    max_per_split: int | None = parameter(whole(1) | NONE, default=None)
    smoothing: float = parameter(real(0), default=5.0)
    l2: float = parameter(real(0), default=3.0)


# How trees predict --------------------------------------------------


class PosteriorAverage(Options):
    """The average of a forest's trees over all their prunings, weighted by their posterior probability.

    Parameters
    ----------
    evidence : {"train", "oob"}, default="train"
        The rows of the likelihood: those that a tree was grown on, or those out of its bag, given the others.
    split_prior : {"search", "strict", "features"}, float, pair or None, default=None
        Prior probability that a node splits, as in `BayesTreeClassifier`. None: 0.2 for classes, 0.5 for numbers.
    temperature : float, default=1
        The likelihood is raised to the power of 1 / temperature.
    alpha : float, default=0.01
        For classes: so many rows of each class are in a leaf beforehand.
    prior_weight : float, default=0.02
        For numbers: how many rows the prior mean of a leaf, which is the mean of all targets, is worth.
    prior_shape : float, default=1
        For numbers: the shape of the inverse gamma prior of a leaf's variance, which is worth twice as many rows.
    prior_scale : float, default=0.02
        For numbers: the prior variance of a leaf's targets, as a share of the variance of all.

    Examples
    --------
    >>> from fastens import PosteriorAverage, RandomForestClassifier
    >>> model = RandomForestClassifier(averaging=PosteriorAverage(alpha=0.1, split_prior="search"))
    """

    evidence: str = parameter(one_of("train", "oob"), default="train")
    split_prior: Any = parameter(SPLIT_PRIOR | NONE, default=None)
    temperature: float = parameter(POSITIVE, default=1.0)
    alpha: float = parameter(POSITIVE, default=0.01)
    prior_weight: float = parameter(POSITIVE, default=0.02)
    prior_shape: float = parameter(POSITIVE, default=1.0)
    prior_scale: float = parameter(POSITIVE, default=0.02)


# Losses with options --------------------------------------------------


class HuberLoss(Options):
    """Squared errors of most rows, absolute ones of the others (Huber 1964).

    Parameters
    ----------
    alpha : float, default=0.9
        The quantile of the absolute residuals beyond which they count linearly.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, HuberLoss
    >>> model = GradientBoostingRegressor(HuberLoss(alpha=0.8))
    """

    alpha: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.9)


class TweedieLoss(Options):
    """The deviance of Tweedie's distribution with a log link: many zeros, and positive numbers.

    Parameters
    ----------
    variance_power : float, default=1.5
        The variance is proportional to the mean to this power, between 1 (Poisson) and 2 (gamma).

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, TweedieLoss
    >>> model = GradientBoostingRegressor(TweedieLoss(variance_power=1.2))
    """

    variance_power: float = parameter(real(1, 2, open_low=True, open_high=True), default=1.5)


class LambdaRankLoss(Options):
    """LambdaMART: by how much each pair of documents changes NDCG (Burges 2010).

    Parameters
    ----------
    truncation_level : int, default=30
        Places whose documents are compared with all below; a little more than `ndcg_at` is good.
    label_gain : {"exponential", "linear"}, default="exponential"
        The gain of a document of relevance r: 2**r - 1 or r.
    normalize : bool, default=True
        Whether close pairs count more than those far apart, and queries of many pairs no more than others.

    Examples
    --------
    >>> from fastens import GradientBoostingRanker, LambdaRankLoss
    >>> model = GradientBoostingRanker(LambdaRankLoss(label_gain="linear"))
    """

    truncation_level: int = parameter(whole(1), default=30)
    label_gain: str = parameter(one_of("exponential", "linear"), default="exponential")
    normalize: bool = parameter(FLAG, default=True)


class AFTLoss(Options):
    """Accelerated failure time: log(time) = prediction + scale * error (Barnwal, Cho & Hocking 2020).

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}, default="normal"
        That of the error. "extreme" makes the times Weibull.
    scale : float, default=1.0
        The factor of the error.

    Examples
    --------
    >>> from fastens import AFTLoss, GradientBoostingSurvival
    >>> model = GradientBoostingSurvival(AFTLoss("logistic", scale=0.5))
    """

    distribution: str = parameter(one_of("normal", "logistic", "extreme"), default="normal")
    scale: float = parameter(real(0, open_low=True), default=1.0)


# What plain values are short for.
SHORT_FORMS: dict[str, dict[Any, Options]] = {
    "boosting": {"dart": Dart()},
    "sampling": {"goss": Goss(), "mvs": Mvs()},
    "early_stopping": {True: EarlyStopping(), "auto": EarlyStopping()},
    "growth": {None: Growth()},
    "linear_leaves": {True: LinearLeaves()},
    "categories": {None: Categories()},
    "averaging": {"posterior": PosteriorAverage()},
    "loss": {"huber": HuberLoss(), "tweedie": TweedieLoss(), "lambdarank": LambdaRankLoss(), "aft": AFTLoss()},
}


def options_in(parameter: str, value: Any) -> Any:
    """The record that the value of a parameter is, or is short for; None where it is neither."""
    if isinstance(value, Options):
        return value
    is_short = value is None or isinstance(value, str) or FLAG.holds(value)
    return SHORT_FORMS.get(parameter, {}).get(value) if is_short else None


def record(*kinds: type[Options]) -> Rule:
    """A record of one of a few kinds."""
    return Rule(" or ".join(kind.__name__ for kind in kinds), lambda value: isinstance(value, kinds))
