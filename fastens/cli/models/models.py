"""Model families of the command line, and their parameters as options."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import fastens
from fastens.boosting.parameters import QUALITIES
from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.target import CLASSIFICATION
from fastens.params.docstrings import entries
from fastens.params.options import SHORT_FORMS
from fastens.params.rules import ANYTHING, Rule, declared
from fastens.table.training_data import AUTO

DEFAULT = "boosting"
TEXT = "text"


@dataclass(frozen=True)
class Family:
    """A family of models."""

    title: str
    classifier: Callable[..., Any] | None
    regressor: Callable[..., Any] | None
    unit: str = "rounds"  # the unit of `n_estimators`
    is_composed: bool = False  # combines models of other families and costs the sum of their times
    is_special: bool = False  # compared with other families only if it is named

    @property
    def kinds(self) -> list[Callable[..., Any]]:
        """The classes of the family."""
        return [kind for kind in (self.classifier, self.regressor) if kind is not None]

    def estimator(self, task: str) -> Callable[..., Any] | None:
        """Return the class for a task, CLASSIFICATION or REGRESSION, or None if the family has none."""
        return self.classifier if task == CLASSIFICATION else self.regressor


def _family(title: str, name: str, defaults: Mapping[str, Any] | None = None, **options: Any) -> Family:
    """Return the family of the public classes `name`Classifier (or `name`) and `name`Regressor, where they exist.

    `defaults` are parameters of the classifier that differ from its own defaults.
    """
    public = vars(fastens)["__all__"]
    names = name if name in public else f"{name}Classifier", f"{name}Regressor"
    kinds: list[Any] = [getattr(fastens, each) if each in public else None for each in names]
    classifier, regressor = kinds
    return Family(title, partial(classifier, **defaults) if defaults else classifier, regressor, **options)


FAMILIES = {
    "boosting": _family("gradient boosting", "GradientBoosting"),
    "forest": _family("random forest", "RandomForest", unit="trees"),
    "extra-trees": _family("extra trees", "ExtraTrees", unit="trees"),
    "tree": _family("single tree", "DecisionTree"),
    "bayes-tree": _family("a tree averaged over all its prunings", "BayesTree"),
    "exact-trees": _family("average over all trees of a few binary questions", "ExactTreeAverage"),
    "bagging": _family("bagged trees", "Bagging", unit="members"),
    "adaboost": _family("AdaBoost", "AdaBoost"),
    "naive-bayes": _family("naive Bayes with a distribution for each kind of column", "MixedNB"),
    "tan": _family("tree-augmented naive Bayes", "TAN"),
    "aode": _family("averaged one-dependence estimators", "AODE"),
    "network": _family("Bayesian network", "BayesianNetwork", {"max_bins": 8}),
    # Soft voting is used because the commands report probabilities.
    "voting": _family("average of several models", "Voting", {"voting": "soft"}, is_composed=True),
    "stacking": _family("stacking of several models", "Stacking", is_composed=True),
    "bayes-optimal": _family(
        "average of several models, weighted by their posterior", "BayesOptimal", is_composed=True
    ),
    "cascade": _family("cascade of forest layers", "CascadeForest", is_composed=True),
    "weighted-majority": _family("weighted majority vote of several models", "WeightedMajority", is_composed=True),
    "gibbs": _family("Gibbs classifier: a model drawn from the posterior for each row", "Gibbs", is_composed=True),
    "map": _family("the most probable of several models", "MAP", is_composed=True),
    "ml": _family("the most likely of several models", "MaximumLikelihood", is_composed=True),
    "conformal": _family("conformal prediction sets and intervals from boosting", "Conformal", is_composed=True),
    "stump": _family("decision stump", "DecisionStump", is_special=True),
    # Without noise, a single wrong label would exclude all conjunctions.
    "version-space": _family("version space of conjunctions", "VersionSpace", {"noise": 0.1}, is_special=True),
    "gaussian-nb": _family("Gaussian naive Bayes for numerical columns", "GaussianNB", is_special=True),
    "categorical-nb": _family("naive Bayes for categorical columns", "CategoricalNB", is_special=True),
    "bernoulli-nb": _family("naive Bayes for binary columns", "BernoulliNB", is_special=True),
    "multinomial-nb": _family("multinomial naive Bayes for counts", "MultinomialNB", is_special=True),
    "complement-nb": _family("complement naive Bayes, for imbalanced classes", "ComplementNB", is_special=True),
    TEXT: _family("naive Bayes on the words of a text", "Text"),
}

# Estimators that the commands do not support, by the name that a user may try, with the alternative.
ELSEWHERE = {
    "ranker": "ranking needs the query of each row. In Python, use "
    "fastens.GradientBoostingRanker().fit(X, y, qid=queries)",
    "survival": "survival analysis needs times and censoring. In Python, use "
    "fastens.GradientBoostingSurvival().fit(X, times)",
    "isolation-forest": "anomaly detection has no target. In Python, use fastens.IsolationForest().fit_predict(X)",
    "embedding": "an embedding has no target. In Python, use fastens.RandomTreesEmbedding().fit_transform(X)",
    "hypotheses": "hypotheses are defined by their likelihoods. In Python, use "
    "fastens.FiniteHypothesisLearner(likelihoods).fit(data)",
}


def check_family(name: str) -> str:
    """Return `name` unchanged; raise CommandError with advice if it is not the name of a family."""
    if name in ELSEWHERE:
        raise CommandError(f"--model {name}: {ELSEWHERE[name]}")
    if name not in FAMILIES:
        raise CommandError(f"--model must be one of {', '.join(FAMILIES)}; got {name}")
    return name


def families(task: str) -> dict[str, Callable[..., Any]]:
    """Map names of families, except text, to their classes for a task; families without such a class are absent."""
    classes = {name: family.estimator(task) for name, family in FAMILIES.items() if name != TEXT}
    return {name: estimator for name, estimator in classes.items() if estimator is not None}


def quick_families(task: str) -> list[str]:
    """Return the names of the families for a task that `fastens compare` tries by default."""
    return [name for name in families(task) if not FAMILIES[name].is_composed and not FAMILIES[name].is_special]


def estimator_class(name: str, task: str) -> Callable[..., Any]:
    """Return the class of a family for a task; raise CommandError if the family does not support the task."""
    estimator = FAMILIES[name].estimator(task)
    if estimator is None:
        raise CommandError(f"--model must be one of {', '.join(families(task))} for {task}; got {name}")
    return estimator


# Prefix of the parameters in the argparse namespace, which separates them from other options.
_PREFIX = "parameter "
_DIRECTION = re.compile(r"(.+?):\s*([+-]?1|0)\s*(?:,|$)", re.DOTALL)


def parse_names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",")]


def parse_stop_words(text: str) -> str | list[str]:
    """Parse the name of a list of stop words, or the words themselves if there is a comma."""
    return parse_names(text) if "," in text else text


def parse_directions(text: str) -> dict[str, int]:
    """Parse text such as "area:+1,age:-1" to directions by column; names may contain commas and colons."""
    pairs = _DIRECTION.findall(text)
    if not pairs or _DIRECTION.sub("", text).strip():
        raise argparse.ArgumentTypeError(f"must be COLUMN:+1 or COLUMN:-1, separated by commas; got {text!r}")
    return {name.strip(): int(direction) for name, direction in pairs}


def parse_word_range(text: str) -> tuple[int, int]:
    """Parse text such as "1-2" to the minimum and maximum number of words; a single number is both."""
    first, _, last = text.partition("-")
    try:
        return int(first), int(last or first)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be two integers, such as 1-2; got {text!r}") from error


class Declared(NamedTuple):
    """What a class declares about a parameter: its default, its rule and the first sentence of its description."""

    default: Any
    rule: Rule
    text: str


@cache
def declarations(estimator: Callable[..., Any]) -> dict[str, Declared]:
    """Return what a class declares for each parameter, by name; option fields are named "categories.encoding"."""
    kind: Any = estimator.func if isinstance(estimator, partial) else estimator
    rules, texts = getattr(kind, "_parameter_rules", {}), _first_sentences(kind)
    parameters = {
        name: Declared(each.default, rules.get(name, ANYTHING), texts.get(name, ""))
        for name, each in inspect.signature(estimator).parameters.items()
    }
    for name, (_, rule, _) in list(parameters.items()):
        for record in filter(rule.holds, SHORT_FORMS.get(name, {}).values()):
            of_options, texts = declared(record, "rule"), _first_sentences(type(record))
            for option, default in record.get_params().items():
                parameters[f"{name}.{option}"] = Declared(default, of_options[option], texts.get(option, ""))
    return parameters


def _first_sentences(kind: type) -> dict[str, str]:
    """Map the parameters in the docstring of a class to the first sentences of their descriptions."""
    sentences: dict[str, str] = {}
    for listed, (_, text) in entries(inspect.cleandoc(kind.__doc__ or "")).items():
        sentence = _SENTENCE_END.split(" ".join(text.split()))[0].rstrip(".")
        sentences |= dict.fromkeys(listed.split(", "), sentence)
    return sentences


class Parameter:
    """A parameter as an option, with the rules, defaults and descriptions that the classes of the families declare.

    Parameters
    ----------
    name : str
        Name of the parameter. A name with a dot belongs to a field of an option record, such as "categories.encoding".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        option, self._special, self._metavar = _NOTATIONS.get(name, ("", None, ""))
        self.option = "--" + (option or name.replace("_", "-"))

    @cached_property
    def declared(self) -> list[Declared]:
        """The declarations of the parameter, by the classes of all families."""
        kinds = [kind for family in FAMILIES.values() for kind in family.kinds]
        return [listed[self.name] for listed in map(declarations, kinds) if self.name in listed]

    def parse(self, text: str) -> Any:
        """Return the value of an option's text that some family accepts; raise ArgumentTypeError if none does."""
        if self._special is not None:
            return self._special(text)
        for value in _literal_values(text):
            if any(rule.holds(value) for _, rule, _ in self.declared):
                return value
        words = " or ".join(dict.fromkeys(rule.text for _, rule, _ in self.declared))
        words = words.replace("True or False", "yes or no").replace("None", "none")
        raise argparse.ArgumentTypeError(f"must be {words}; got {text!r}")

    def add_to(self, group: argparse._ArgumentGroup) -> None:
        """Add the option to an argument group, with its description and its defaults by family."""
        default, rule, text = self.declared[0]
        text = text if text[1:2].isupper() else text[:1].lower() + text[1:]
        if isinstance(default, str) and rule is not ANYTHING:
            text += ": " + _RECORD_NAME.sub("", rule.text)
        metavar = self._metavar or {float: "NUMBER", int: "N", str: "KIND"}.get(type(default), "VALUE")
        form: dict[str, Any] = {"type": self.parse, "metavar": metavar}
        if metavar is SWITCH or (isinstance(default, bool) and not self._metavar):
            form = {"action": argparse.BooleanOptionalAction}
        shown = f"{text} (default: {_defaults_text(self.name)})".replace("%", "%%")
        group.add_argument(self.option, dest=_PREFIX + self.name, help=shown, default=argparse.SUPPRESS, **form)


def _literal_values(text: str) -> Iterator[Any]:
    """Yield the values that a text may stand for, in order: int, float, None, True or False, and the text itself."""
    for convert in (int, float):
        with suppress(ValueError):
            yield convert(text)
    yield from [value for word, value in (("none", None), ("yes", True), ("no", False)) if word == text.lower()]
    yield text


SWITCH = "switch"
_RECORD_NAME = re.compile(r" or [A-Z]\w+")
_SENTENCE_END = re.compile(r"(?<! al)\.\s")
# Names of options that differ from the parameter, notations other than numbers and words, and placeholders.
_NOTATIONS: dict[str, tuple[str, Callable[[str], Any] | None, str]] = {
    "monotonic_cst": ("monotonic", parse_directions, "COL:+1,COL:-1"),
    "interaction_cst": ("interactions", None, "KIND"),
    "growth.forced_splits": ("", None, "FILE"),
    "bootstrap": ("", None, "KIND"),
    "restart": ("", None, "KIND"),
    "class_weight": ("", None, "balanced"),
    "averaging": ("", None, "posterior"),
    "early_stopping": ("", None, SWITCH),
    "estimators": ("members", parse_names, "NAMES"),
    "weights": ("member-weights", None, "KIND"),
    "model": ("text-model", None, "KIND"),
    "features": ("text-features", None, "KIND"),
    "stop_words": ("", parse_stop_words, "WORDS"),
    "ngram_range": ("ngrams", parse_word_range, "N-M"),
}
# The parameters by subject, in the order of `fastens train --help`.
_GROUPS = {
    "size of the model": "n_estimators learning_rate max_leaf_nodes max_depth min_samples_split min_samples_leaf "
    "split_penalty min_impurity_decrease l2_regularization ccp_alpha",
    "how trees are grown": "max_bins max_features max_features_per_tree criterion splitter subsample bootstrap "
    "max_samples oob_score boosting sampling linear_leaves averaging monotonic_cst interaction_cst",
    "loss and early stopping": "loss quantile alpha class_weight early_stopping validation_fraction refit "
    "n_iter_no_change tol",
    "AdaBoost": "algorithm restart resample",
    "combinations of models": "estimators weights voting final_estimator passthrough max_layers inputs_from beta",
    "Bayesian models": "smoothing structure noise max_parents feature_prior",
    "texts": "model features stemmer stop_words ngram_range min_df",
    "running": "n_jobs",
}


@cache
def parameter_groups() -> dict[str, list[Parameter]]:
    """Map titles of help groups to parameters; the fields of option records form groups of their own."""
    groups = {title: list(map(Parameter, listed.split())) for title, listed in _GROUPS.items()}
    kinds = [kind for family in FAMILIES.values() for kind in family.kinds]
    options = {name: each for kind in kinds for name, each in declarations(kind).items() if "." in name}
    for name, (default, rule, _) in options.items():
        if default is not None or any(map(rule.holds, (2, 0.5, "path"))):  # the option accepts values that can be typed
            groups.setdefault(f"options of {name.partition('.')[0]}", []).append(Parameter(name))
    return groups


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add `--model` and an option for each parameter; the estimator provides the defaults."""
    text = f"kind of model, see below (default: {DEFAULT})"
    parser.add_argument("--model", metavar="KIND", help=text)
    width = max(map(len, FAMILIES)) + 2
    kinds = "\n".join(f"  {name:{width}}{family.title}" for name, family in FAMILIES.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"kinds of models:\n{kinds}"
    for title, parameters in parameter_groups().items():
        group = parser.add_argument_group(title)
        for parameter in parameters:
            parameter.add_to(group)


def add_quality(parser: argparse.ArgumentParser) -> None:
    """Add the options --quality and --time-limit to the parser of `fastens train`."""
    text = "quality preset of boosting: fast, default or best (an ensemble of boosting and forests)"
    parser.add_argument("--quality", choices=QUALITIES, help=text)
    text = "time limit in seconds with --quality best"
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help=text)


def chosen_family(options: argparse.Namespace) -> str:
    """Return the name of the family that --model and --text request; raise CommandError if they are invalid."""
    if options.text is None:
        if options.model == TEXT:
            raise CommandError("--model text needs --text COL to name the column with the texts")
        return check_family(options.model or DEFAULT)
    return TEXT if options.model is None else check_family(options.model)


def reads_words(name: str) -> bool:
    """Return True if the models of a family learn from the words of free text next to other columns."""
    return any("text_features" in declarations(kind) for kind in FAMILIES[name].kinds)


def make_model(task: str, options: argparse.Namespace, texts: Sequence[str] = ()) -> Any:
    """Return the unfitted estimator for the task, with parameters from the options and `texts` as text columns."""
    name = chosen_family(options)
    estimator = estimator_class(name, task)
    parameters = declarations(estimator)
    groups = parameter_groups().values()
    chosen = [parameter for group in groups for parameter in group if _PREFIX + parameter.name in vars(options)]
    for parameter in chosen:
        if parameter.name not in parameters:
            raise CommandError(f"{parameter.option} does not apply to {name} for {task}")
    values = {parameter.name: vars(options)[_PREFIX + parameter.name] for parameter in chosen}
    of_records = {name.replace(".", "__"): values.pop(name) for name in list(values) if "." in name}
    if "estimators" in values:
        values["estimators"] = _create_members(values["estimators"], task)
    if "random_state" in parameters:
        values["random_state"] = options.random_state
    values |= {} if name == TEXT else _text_parameters(texts, f"{name} for {task}", parameters)
    if options.weight_type != AUTO:
        if options.weight is None:
            raise CommandError("--weight-type requires --weight COL")
        if "weight_type" not in parameters:
            raise CommandError(f"--weight-type does not apply to {name} for {task}")
        values["weight_type"] = options.weight_type
    try:
        return _estimator_constructor(estimator, name, options)(**values).set_params(**of_records)
    except ValueError as error:
        raise CommandError(first_line(error)) from error


def _text_parameters(texts: Sequence[str], name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return {'text_features': texts} or, without texts, {}; raise CommandError if `parameters` lack it."""
    if texts and "text_features" not in parameters:
        raise CommandError(f"--text does not apply to {name}. Use --model boosting or forest")
    return {"text_features": list(texts)} if texts else {}


def _estimator_constructor(estimator: Any, name: str, options: argparse.Namespace) -> Callable[..., Any]:
    """Return the class or, with --quality, its `with_quality`; raise CommandError for unsupported options."""
    quality, seconds = getattr(options, "quality", None), getattr(options, "time_limit", None)
    if quality is None:
        if seconds is not None and "quality" in vars(options):
            raise CommandError("--time-limit requires --quality best; fastens tune has a time limit too")
        return estimator
    if not hasattr(estimator, "with_quality"):
        raise CommandError(f"--quality requires --model boosting; got {name}")
    return partial(estimator.with_quality, quality, seconds)


def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Call model.fit; raise errors about parameters, the table or the disk as CommandError with one line."""
    try:
        return model.fit(*args, **kwargs)
    except OSError as error:
        reason = first_line(error) if error.filename is None else f"cannot write {error.filename}: {error.strerror}"
        raise CommandError(reason) from error
    except (ValueError, ImportError) as error:
        raise CommandError(first_line(error)) from error


def _create_members(wanted: list[str], task: str) -> list[tuple[str, Any]]:
    """Return (name, unfitted estimator) pairs for the families `wanted`; raise CommandError for unknown ones."""
    by_name = families(task)
    for name in wanted:
        if name not in by_name:
            raise CommandError(f"--members must be among {', '.join(by_name)} for {task}; got {name!r}")
    return [(name, by_name[name]()) for name in wanted]


def _defaults_text(name: str) -> str:
    """Return the default of a parameter as text for the help; if families differ, one default for each."""
    models_by_default: dict[str, list[str]] = {}
    for family, kind in FAMILIES.items():
        own_defaults: list[str] = []
        for estimator, task in ((kind.classifier, "classification"), (kind.regressor, "regression")):
            listed = {} if estimator is None else declarations(estimator)
            if name in listed and (default := _option_text(listed[name].default)) not in own_defaults:
                own_defaults.append(default)
                models_by_default.setdefault(default, []).append(f"{family} for {task}" if own_defaults[1:] else family)
    if len(models_by_default) == 1:
        return next(iter(models_by_default))
    return ", ".join(f"{' and '.join(models)} {default}" for default, models in models_by_default.items())


def _option_text(default: Any) -> str:
    """Return a default in the form in which it is typed on the command line."""
    words = {None: "none", True: "yes", False: "no"}
    if default is None or isinstance(default, bool):
        return words[default]
    return "-".join(map(str, default)) if isinstance(default, tuple) else str(default)
