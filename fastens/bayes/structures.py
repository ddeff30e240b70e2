"""Structures of networks, learned from codes: the best tree, the best tree beside the class, and hill-climbing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.chow_liu import class_information, maximum_spanning_tree, mutual_information
from fastens.bayes.counting import class_counts, pair_counts, without_missing
from fastens.bayes.family_scores import FamilyScores
from fastens.bayes.graphs import Parents
from fastens.bayes.hill_climbing import hill_climb

LEARNED = ("hill-climb", "chow-liu", "tan")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """What hill-climbing is told."""

    score: str
    ess: float
    max_parents: int
    tabu: int


@dataclass(frozen=True)
class Coded:
    """Rows as codes, 0 for a missing value and p + 1 for position p."""

    codes: NDArray[Any]  # (n_variables, n_rows)
    sizes: NDArray[np.int64]
    weights: Array | None
    n_threads: int


def learn_structure(kind: str, data: Coded, search: Search) -> Parents:
    """The parents of each variable; in "tan" the last variable is the class."""
    if kind == "hill-climb":
        scores = FamilyScores(data.codes, data.sizes, data.weights, search.score, search.ess, data.n_threads)
        return hill_climb(scores, len(data.sizes), max_parents=search.max_parents, tabu=search.tabu)
    return chow_liu(data) if kind == "chow-liu" else tan(data)


def chow_liu(data: Coded) -> Parents:
    """The tree of the greatest likelihood, rooted in the first variable (Chow & Liu 1968)."""
    nothing = np.zeros(data.codes.shape[1], dtype=np.int32)
    information = mutual_information(_pairs(data, nothing, 1), data.sizes)
    return tuple((parent,) if parent >= 0 else () for parent in maximum_spanning_tree(information).tolist())


def tan(data: Coded) -> Parents:
    """The class above all, and the best tree among the others given it, rooted in the one that tells most of the class.

    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", section 4.1.
    """
    last = len(data.sizes) - 1
    y = data.codes[last].astype(np.int32) - 1
    others = Coded(np.ascontiguousarray(data.codes[:last]), data.sizes[:last], data.weights, data.n_threads)
    n_classes = int(data.sizes[last])
    information = mutual_information(_pairs(others, y, n_classes), others.sizes)
    counts = class_counts(others.codes, y, others.sizes + 1, n_classes, data.weights, data.n_threads)
    root = int(class_information(without_missing(counts, others.sizes + 1), others.sizes).argmax())
    tree = maximum_spanning_tree(information, root).tolist()
    return (*((last, parent) if parent >= 0 else (last,) for parent in tree), ())


def _pairs(data: Coded, y: NDArray[np.int32], n_classes: int) -> NDArray[Any]:
    n_codes = data.sizes + 1
    return without_missing(pair_counts(data.codes, y, n_codes, n_classes, data.weights, data.n_threads), n_codes)
