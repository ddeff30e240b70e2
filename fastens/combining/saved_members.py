"""Fitted members as arrays of a model file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.combining.folds import FittedMember
from fastens.combining.responses import METHODS
from fastens.saving import nested_arrays, nested_model
from fastens.storage import ModelFileError


def members_to_arrays(prefix: str, members: list[FittedMember]) -> dict[str, NDArray[Any]]:
    """Arrays whose names start with `prefix`."""
    found: dict[str, NDArray[Any]] = {}
    described = []
    for number, member in enumerate(members):
        described.append([member.name, member.columns, member.method, member.knows_labels, len(member.models)])
        for place, model in enumerate(member.models):
            found |= nested_arrays(f"{prefix}{number}.{place}.", model, f"Member {member.name!r}")
    content = json.dumps(described, separators=(",", ":")).encode()
    return found | {f"{prefix}members": np.frombuffer(content, dtype=np.uint8)}


def members_from_arrays(
    prefix: str, arrays: Mapping[str, NDArray[Any]], classes: NDArray[Any] | None
) -> list[FittedMember]:
    """The members again."""
    found = []
    described = json.loads(arrays[f"{prefix}members"].tobytes().decode())
    for number, (name, columns, method, knows_labels, n_models) in enumerate(described):
        if method not in METHODS or type(n_models) is not int:
            raise ModelFileError("the state of the members is malformed")
        models = [nested_model(f"{prefix}{number}.{place}.", arrays, f"Member {name!r}") for place in range(n_models)]
        found.append(FittedMember(name, columns, method, models, classes, knows_labels))
    return found
