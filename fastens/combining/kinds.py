"""Which kind of estimator a member is: classifier, regressor, or none at all."""

from __future__ import annotations

from typing import Any

from sklearn.utils import get_tags


def tags_of(member: Any) -> Any:
    """scikit-learn's tags of an estimator; None for what has none: a class, text, an object of a class of its own."""
    if not hasattr(member, "fit"):
        return None
    try:
        return get_tags(member)
    except (AttributeError, TypeError):
        return None


def check_kind(what: str, member: Any, wants_classifier: bool) -> None:
    """Raise ValueError where a member is no classifier, or no regressor."""
    kind = "classifier" if wants_classifier else "regressor"
    tags = tags_of(member)
    if tags is not None and tags.estimator_type == kind:
        return
    needs_tags = tags is None and hasattr(member, "fit")
    advice = f", an instance of a class with scikit-learn's {kind.title()}Mixin and BaseEstimator"
    raise ValueError(f"{what} must be a {kind}{advice if needs_tags else ''}; got {member!r}.")
