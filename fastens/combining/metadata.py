"""What `fit` and the like are given besides rows and targets, with scikit-learn's metadata routing or without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn import get_config

KNOWN_METADATA = {"sample_weight", "groups", "X_val", "y_val"}


def check_metadata(kind: str, metadata: Mapping[str, Any], method: str = "fit") -> None:
    """Raise TypeError for unknown arguments of a method, unless scikit-learn's metadata routing is on."""
    known = KNOWN_METADATA if method == "fit" else set()
    unknown = [] if routing_enabled() else sorted(set(metadata) - known)
    if unknown:
        raise TypeError(f"{kind}.{method} got an unexpected keyword argument {unknown[0]!r}")


def routing_enabled() -> bool:
    """Whether scikit-learn's metadata routing is on."""
    return bool(get_config().get("enable_metadata_routing", False))
