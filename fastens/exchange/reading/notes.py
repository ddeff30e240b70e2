"""Notes that `export` stores next to the trees: labels, categories by value and the class of the estimator."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fastens.engine.losses.ranking_loss import DISTRIBUTIONS
from fastens.exchange.reading.records import (
    RANKER,
    REGRESSOR,
    SURVIVAL,
    ForeignModel,
    Outputs,
    array_of,
    number,
    part,
    refuse,
    single,
    whole_number,
    with_vectors,
)
from fastens.params.options import AFTLoss

FORESTS = ("RandomForest", "ExtraTrees", "DecisionTree")
_PLAIN = (str, bool, int, float)


def note_in(text: Any) -> dict[str, Any] | None:
    """Parse and validate a note; return None for an empty text."""
    if not text:
        return None
    try:
        note = json.loads(text, strict=False)  # XGBoost does not escape control characters
    except (ValueError, TypeError, RecursionError) as error:
        raise refuse("the note of fastens in the file must be JSON; it is damaged") from error
    for name in ("links", "widths", "parameters", "levels"):
        part(note, name, list)
    part(note, "estimator", str)
    names = part(note, "names", (list, type(None)))
    if names is not None and not all(isinstance(name, str) for name in names):
        raise refuse("the note of fastens must have names that are texts")
    if not all(type(width) is int and 0 < width < 2**16 for width in note["widths"]):
        raise refuse("the note of fastens must have the number of raw predictions of each target")
    for own in [*(note.get("classes") or []), *part({"categories": {}} | note, "categories", dict).values()]:
        if not isinstance(own, list) or not all(isinstance(value, _PLAIN) for value in own):
            raise refuse("the note of fastens must have lists of labels and categories")
        if len(set(own)) != len(own):
            raise refuse("the note of fastens must have labels and categories once each")
    return note


def n_categories(note: dict[str, Any]) -> dict[int, int]:
    """Return the number of categories, or of category codes, by column."""
    named = {key: len(values) for key, values in note.get("categories", {}).items()}
    coded = part({"n_codes": {}} | note, "n_codes", dict)
    return {whole_number(key, "a column"): whole_number(n, "n_codes") for key, n in (named | coded).items()}


def set_noted(found: ForeignModel) -> None:
    """Set the labels, categories and estimator of a model from its note, if it has one."""
    if found.note is None:
        return
    _set_classes(found, found.note)
    _set_task(found, found.note)
    found.columns.names = found.note["names"]  # the original names, because some formats change or require names
    found.columns.table = part({"columns": None} | found.note, "columns", (dict, type(None)))
    names = found.note.get("categories", {})
    for key, values in names.items():
        column = int(key) if key.isdecimal() else -1
        if not 0 <= column < found.columns.n_features:
            raise refuse(f"the note of fastens has categories of the column {key[:20]!r}, which is not there")
        if column in found.columns.n_codes:
            _name_codes(found, column, values)
        elif column not in found.columns.categories:
            found.columns.categories[column] = values
    found.columns.missing_is_category = bool(names) and found.note.get("missing_is_category") is True


def _set_classes(found: ForeignModel, note: dict[str, Any]) -> None:
    labels = note.get("classes")
    if labels is None or len(labels) != len(note["widths"]):
        return
    arrays = [np.asarray(own) for own in labels]
    classes: Any = arrays if len(arrays) > 1 else arrays[0]
    if found.classes is not None:
        if len(arrays) == found.n_targets > 1 or (found.n_targets == 1 and len(found.classes) == len(classes)):
            found.classes = classes
        is_forest = found.estimator.startswith(FORESTS)
    else:
        is_forest = set(note["links"]) == {"shares"} and _becomes_forest(found)
        found.classes, found.n_targets = (classes, len(arrays)) if is_forest else (None, found.n_targets)
    if is_forest:
        kind = note["estimator"]
        found.estimator = kind if kind.startswith(FORESTS) else "RandomForestClassifier"
        found.fitted["_has_all_shares"] = note.get("has_all_shares") is True


def _set_task(found: ForeignModel, note: dict[str, Any]) -> None:
    """Turn the sum of trees into a ranker or a survival model if the exported model was one."""
    if note["estimator"] not in (RANKER, SURVIVAL) or note["links"] != ["identity"] or found.n_targets != 1:
        return
    if found.estimator not in (REGRESSOR, RANKER):
        raise refuse(f"the note of fastens tells of a {note['estimator']}, and the file of a {found.estimator}")
    found.estimator, found.parameters = note["estimator"], {}
    if found.estimator == SURVIVAL:
        _set_times(found, part(note, "survival", dict))


def _set_times(found: ForeignModel, note: dict[str, Any]) -> None:
    """Set the distribution of the times, or the baseline hazard after a check that it is monotonic."""
    if "distribution" in note:
        kind, scale = part(note, "distribution", str), number(part(note, "scale", float), "the scale")
        if kind not in DISTRIBUTIONS or not scale > 0:
            raise refuse("the note of fastens must have the distribution of errors and their scale")
        found.parameters = {"loss": AFTLoss(distribution=kind, scale=scale)}
        return
    times = array_of(part(note, "times", list), "times", float)
    hazard = array_of(part(note, "hazard", list), "hazard", float, len(times))
    if not (np.isfinite(times).all() and np.isfinite(hazard).all() and (np.diff(times) > 0).all()):
        raise refuse("the note of fastens must have the times of events in order, and the hazard at each")
    if (np.diff(hazard, prepend=0.0) < 0).any():
        raise refuse("the hazard of the note of fastens must not fall")
    found.fitted |= {"event_times_": times, "cumulative_hazard_": hazard}


def _becomes_forest(found: ForeignModel) -> bool:
    """Undo the division of leaf values by the number of trees; return True if the model is a forest."""
    if found.estimator == "RandomForestRegressor":
        return True
    if found.estimator != "GradientBoostingRegressor" or any(found.baseline):
        return False
    n_outputs = len(found.baseline)
    trees = found.trees if found.trees.value.shape[1] == n_outputs else with_vectors(found.trees, n_outputs)
    if trees is None:
        return False
    trees.value = single(trees.value * len(trees.roots)).astype(np.float64)
    found.trees, found.parameters = trees, {}
    return True


def _name_codes(found: ForeignModel, column: int, values: list[Any]) -> None:
    """Replace codes by categories; if missing is a category, its position follows the others."""
    columns, trees = found.columns, found.trees
    n, has_others = columns.n_codes.pop(column), column in columns.has_others
    columns.has_others.discard(column)
    if n > len(values):
        raise refuse(f"the note of fastens has {len(values)} categories of column {column}, and the trees {n}")
    columns.categories[column] = values
    is_category = found.note is not None and found.note.get("missing_is_category") is True
    for node in [node for node in trees.sets if trees.feature[node] == column]:
        own, missing_left = trees.sets[node], bool(trees.missing_left[node])
        others_left = n in own if has_others else missing_left
        own = own[own < n]
        rest = np.arange(n, len(values)) if others_left else np.zeros(0, np.int64)
        last = [len(values)] if is_category and missing_left else []
        trees.sets[node] = np.concatenate([own, rest, np.array(last, dtype=np.int64)])
        trees.missing_left[node] = others_left if is_category else missing_left


# The link of `Outputs` for each link of a note.
_LINKS = {
    "identity": "identity",
    "exp": "exponential",
    "sigmoid": "sigmoid",
    "softmax": "softmax",
    "shares": "identity",
}
_LINKS |= {"anomaly": "isolation", "sorted": "identity"}


def noted_outputs(note: dict[str, Any]) -> Outputs:
    """Return how sums of trees become predictions, for a file whose note describes it completely."""
    links, widths = set(note["links"]), note["widths"]
    if (len(links) != 1 and not links <= {"sigmoid", "softmax"}) or not links <= _LINKS.keys():
        raise refuse(f"the links {sorted(map(str, links))} of the note of fastens cannot be read")
    link = next(iter(links))
    has_classes = "classes" in note and link != "shares"
    return Outputs(
        n_outputs=sum(widths),
        n_targets=len(widths) if has_classes or link in ("sorted", "anomaly") else sum(widths),
        averages=note.get("is_mean") is True,
        is_classifier=has_classes,
        link=_LINKS[link],
        alpha=number(note["parameters"][0], "the mean path length") if link == "anomaly" else 1.0,
    )


def with_note(found: ForeignModel, note: dict[str, Any]) -> ForeignModel:
    """Return a model of such sums with the other settings from its note."""
    if set(note["links"]) == {"sorted"}:
        loss = "expectile" if note.get("levels_of") == "expectile" else "quantile"
        found.parameters = {"loss": loss, "quantile": [number(level, "a level") for level in note["levels"]]}
    if note["links"] == ["anomaly"]:
        found.fitted["offset_"] = number(note["parameters"][1], "the offset")
    found.note = note
    return found
