"""Conformal prediction by its definitions: every row to calibrate on, once for each unit of its weight."""

from __future__ import annotations

import math

import numpy as np


def repeated(scores, weight):
    return np.repeat(scores, np.asarray(weight, dtype=int))


def rank(n_rows, coverage):
    """Of n rows and a new one, the new one is not among those after this place with probability `coverage`."""
    return math.ceil(coverage * (n_rows + 1) - 1e-6)


def upper_end(scores, centers, scales, coverage):
    """Barber et al. (2021), eq. 1.2 and section 3: of center + scale * score of all rows the one at its rank.

    `scores` holds those of each fold; `centers` and `scales` a number for each fold.
    """
    sums = np.sort(np.concatenate([c + s * part for part, c, s in zip(scores, centers, scales, strict=True)]))
    place = rank(len(sums), coverage)
    return sums[place - 1] if place <= len(sums) else math.inf


def weighted_upper_end(folds, centers, scales, new, coverage):
    """Tibshirani et al. (2019), eq. 9: the quantile of the sums by their mass; the new row is infinite."""
    sums = np.concatenate([c + s * part for (part, _), c, s in zip(folds, centers, scales, strict=True)])
    mass = np.concatenate([weight for _, weight in folds])
    share, below = mass / (mass.sum() + new), 0.0
    for row in np.argsort(sums):
        below += share[row]
        if share[row] > 0 and below >= coverage:
            return sums[row]
    return math.inf


def adapted(scores, new_scores, coverage, step):
    """Gibbs & Candes (2021), eq. 2: the level after each new score, which joins the scores and replaces the first."""
    scores, miscoverage, levels, missed = list(scores), 1 - coverage, [], []
    for score in new_scores:
        place = rank(len(scores), 1 - miscoverage)
        end = -math.inf if place <= 0 else math.inf if place > len(scores) else sorted(scores)[place - 1]
        missed.append(score > end)
        miscoverage += step * ((1 - coverage) - missed[-1])
        levels.append(1 - miscoverage)
        scores = [*scores[1:], score]
    return levels, missed


def in_set(scores, candidate, coverage):
    """Romano, Sesia & Candes (2020), eq. 12: fewer rows than the rank have a smaller score than the class has."""
    n_rows = sum(map(len, scores))
    below = sum((part < value).sum() for part, value in zip(scores, candidate, strict=True))
    return below < coverage * (n_rows + 1) - 1e-6


def set_scores(name, probability, penalty, free_places):
    """Scores of the classes of one row, class by class."""
    found = []
    order = sorted(range(len(probability)), key=lambda k: (-probability[k], k))
    for k in range(len(probability)):
        place = order.index(k)
        before = sum(probability[j] for j in order[:place])
        late = penalty * max(0, place + 1 - free_places)
        found.append({"lac": 1 - probability[k], "aps": before, "raps": before + late}[name])
    return found


def make_folds(seed, n_folds):
    """A generator, and scores with weights for each fold, with ties and rows without weight."""
    rng = np.random.default_rng(seed)
    folds = []
    for _ in range(n_folds):
        n_rows = rng.integers(1, 25)
        folds.append((np.round(rng.normal(size=n_rows), rng.integers(0, 4)), rng.integers(0, 4, n_rows).astype(float)))
    folds[0] = folds[0][0], np.maximum(folds[0][1], 1.0)
    return rng, folds
