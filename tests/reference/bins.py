"""Bins, the plain way: the specification of fastens.engine.bins.binning and its kernels."""

from __future__ import annotations

import numpy as np

from fastens.engine.bins.binning import SINGLE, TOWARD_ZERO, WHOLE


def codes(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """0 for a missing value, otherwise 1 + the number of thresholds below the value."""
    below = np.array([np.sum(thresholds < float(value)) for value in x])
    return np.where(np.isnan(x), 0, below + 1)


def codes_of_categories(x: np.ndarray, category_codes: np.ndarray, other: int = 0, rule: int = 0) -> np.ndarray:
    """0 for a missing value, `other` for a number that is no position by the rule: see Binning."""
    found = []
    for given in x:
        value = float(np.float32(given)) if rule & SINGLE else float(given)
        lowest = -1.0 if rule & TOWARD_ZERO else np.nextafter(0.0, -1.0)
        is_position = lowest < value < len(category_codes) and not (rule & WHOLE and value != np.floor(value))
        found.append(0 if np.isnan(value) else category_codes[int(value)] if is_position else other)
    return np.array(found)


def between(low: float, high: float) -> float:
    """A number that is at least low and below high: the middle where there is one."""
    if np.isinf(low):
        return 0.0 if np.isinf(high) else low
    if np.isinf(high):
        return float(np.finfo(np.float64).max)
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def thresholds(x: np.ndarray, weight: np.ndarray, max_bins: int) -> np.ndarray:
    """Between all distinct values if there are up to max_bins, otherwise weighted quantiles.

    A value of more than the mean weight of a bin has a bin of its own. The light ones between fill bins one after
    another, each up to an even share of the light weight that is left; before a heavy value half a share is enough.
    """
    present = ~np.isnan(x)
    values = np.unique(x[present].astype(np.float64))
    totals = [float(weight[present & (x == value)].sum()) for value in values]
    ends = range(len(values) - 1)
    if len(values) > max_bins:
        ends = _bin_ends(totals, max_bins)
    return np.array([between(values[i], values[i + 1]) for i in ends]) + 0.0


def _bin_ends(totals: list[float], max_bins: int) -> list[int]:
    mean = sum(totals) / max_bins
    heavy = [total > mean for total in totals]
    light_left = sum(total for total, is_heavy in zip(totals, heavy, strict=True) if not is_heavy)
    bins_left = max_bins - sum(heavy)
    share = light_left / max(bins_left, 1)
    ends, current = [], 0.0
    for i in range(len(totals) - 1):
        if len(ends) == max_bins - 1:
            break
        current += totals[i]
        light_left -= 0.0 if heavy[i] else totals[i]
        if heavy[i] or current >= share or (heavy[i + 1] and 2 * current >= share):
            ends.append(i)
            current = 0.0
            if not heavy[i]:
                bins_left = max(bins_left - 1, 1)
                share = light_left / bins_left
    return ends


def category_codes(x: np.ndarray, weight: np.ndarray, max_bins: int) -> np.ndarray:
    """Codes from the heaviest category down; those from the max_bins-th on share one; 0 for a category without rows."""
    present = ~np.isnan(x)
    n_categories = int(x[present].max()) + 1 if present.any() else 0
    totals = [float(weight[present & (x == c)].sum()) for c in range(n_categories)]
    ranks = sorted(range(n_categories), key=lambda c: (-totals[c], c))
    found = np.zeros(n_categories, dtype=np.uint16)
    for rank, c in enumerate(ranks):
        found[c] = min(rank + 1, max_bins) if totals[c] > 0 else 0
    return found
