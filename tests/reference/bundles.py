"""Bundles, the plain way: the specification of the kernel that joins features."""

from __future__ import annotations

import numpy as np

MAX_COMBINATIONS = 256
MAX_OPEN = 16


def combinations(columns: np.ndarray) -> np.ndarray:
    """The different columns of codes, (n_features, n_combinations)."""
    return np.array(sorted(set(zip(*columns.tolist(), strict=True)))).T


def most_frequent_bin(codes: np.ndarray) -> int:
    """The code that a feature has in most combinations, the smallest of several."""
    return int(np.bincount(codes).argmax())


def cost(columns: np.ndarray, n_codes: np.ndarray) -> float:
    """What the last feature costs in a bundle with those before it, infinity where there are too many combinations.

    Its codes, and members, where a feature has another code than the usual one that it had so far: those of the feature
    and those that the others get in addition. A feature that was alone had cost nothing.
    """
    before, after = combinations(columns[:-1]), combinations(columns)
    if after.shape[1] > MAX_COMBINATIONS:
        return np.inf
    own = np.sum(after[-1] != most_frequent_bin(after[-1]))
    usual = [most_frequent_bin(codes) for codes in before]
    members = [(them != np.array(usual)[:, None]).sum() for them in (before, after[:-1])]
    if len(before) == 1:
        return own + members[1] + sum(n_codes)
    return own + members[1] - members[0] + n_codes[-1]


def join(columns: np.ndarray, n_codes: np.ndarray, most_cost: int) -> list[list[int]]:
    """Groups of features: each goes to the one of the latest where it costs least, or begins one."""
    bundles: list[list[int]] = []
    for feature in range(len(columns)):
        latest = bundles[-MAX_OPEN:]
        costs = [cost(columns[[*bundle, feature]], n_codes[[*bundle, feature]]) for bundle in latest]
        if min(costs, default=np.inf) <= most_cost:
            latest[int(np.argmin(costs))].append(feature)
        else:
            bundles.append([feature])
    return bundles


def join_as_planned(columns: np.ndarray, n_codes: np.ndarray, most_cost: int, planned: np.ndarray) -> list[list[int]]:
    """The same where the bundle of each feature is given: those that cost too much there are alone."""
    bundles: list[list[int]] = []
    alone: list[list[int]] = []
    for number in range(max(planned) + 1):
        first, *others = np.flatnonzero(planned == number).tolist()
        bundles.append([first])
        for feature in others:
            them = [*bundles[-1], feature]
            if cost(columns[them], n_codes[them]) <= most_cost:
                bundles[-1].append(feature)
            else:
                alone.append([feature])
    return bundles + alone
