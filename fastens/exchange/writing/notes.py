"""What formats have no place for: labels, categories by value, and which estimator a model is; as a text in a file."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from fastens.engine.losses.survival_losses import AFT, Cox
from fastens.engine.names import are_texts

_PLAIN = (str, bool, int, float)


def note_of(model: Any, columns: list[Any], targets: list[Any]) -> dict[str, Any]:
    """Return what `from_model` reads besides the trees.

    Parameters
    ----------
    model : estimator
        The fitted model.
    columns : list of Column
        Its columns.
    targets : list of Target
        What becomes of its raw predictions.
    """
    note: dict[str, Any] = {"estimator": type(model).__name__, "links": [target.link for target in targets]}
    note["widths"] = [target.outputs.stop - target.outputs.start for target in targets]
    note["parameters"] = [own for target in targets for own in target.parameters]
    has_levels = "sorted" in note["links"]
    note["levels"] = np.ravel(model.quantile).tolist() if has_levels else []
    if has_levels:
        note["levels_of"] = model._loss.name
    note["is_mean"] = model._combination != "sum"
    encoder = model._encoder
    note["names"] = [column.name for column in columns] if encoder.has_own_names else None
    if encoder.date_parts or (encoder.has_own_names and not are_texts(encoder.names)):
        note["columns"] = {name: encoder.to_state().get(name, []) for name in ("names", "dates", "date_parts")}
    note["is_single"] = bool(model._ensemble.value.dtype == np.float32)
    if isinstance(getattr(model, "_loss", None), AFT | Cox):
        note["survival"] = _survival_of(model)
    labels = [None if target.classes is None else target.classes.tolist() for target in targets]
    if all(own is not None and all(isinstance(label, _PLAIN) for label in own) for own in labels):
        note["classes"] = labels
    note["has_all_shares"] = bool(getattr(model, "_has_all_shares", False))
    coded = {str(number): len(own.categories) for number, own in enumerate(columns) if own.is_coded}
    if coded:
        note["n_codes"] = coded
    named = {number: own.categories for number, own in enumerate(columns) if own.categories and not own.is_coded}
    if named:
        note["categories"] = {str(number): categories for number, categories in named.items()}
        note["missing_is_category"] = bool(model._encoder.missing_is_category)
    return note


def _survival_of(model: Any) -> dict[str, Any]:
    """The distribution of the times, or the baseline hazard."""
    errors = model._options("loss")
    if errors is not None:
        return {"distribution": errors.distribution, "scale": float(errors.scale)}
    return {"times": model.event_times_.tolist(), "hazard": model.cumulative_hazard_.tolist()}


def text_of(note: dict[str, Any]) -> str:
    """The note as one line of ASCII without equals signs, which LightGBM's headers cannot hold.

    XGBoost writes a backslash before a u as it is: one that is no escape must have another letter after it.
    """
    text = json.dumps(note, separators=(",", ":")).replace("=", "\\u003d")
    return re.sub(r"(\\\\)u|\\.", lambda found: found[1] + r"\u0075" if found[1] else found[0], text)
