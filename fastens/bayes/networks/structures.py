"""Structure learning: hill-climbing, Chow-Liu trees, TAN and KDB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.chow_liu import class_information, maximum_spanning_tree, mutual_information
from fastens.bayes.counts.counting import LabelledCodes, class_counts, pair_counts, without_missing
from fastens.bayes.counts.families import CodedRows
from fastens.bayes.networks.family_scores import FamilyScores
from fastens.bayes.networks.graphs import Parents
from fastens.bayes.networks.hill_climbing import hill_climb

LEARNED = ("hill-climb", "chow-liu", "tan", "kdb")
WITH_CLASS = ("tan", "kdb")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Search:
    """Parameters of structure learning."""

    score: str
    ess: float
    max_parents: int
    tabu: int
    min_information: float


def learn_structure(kind: str, data: CodedRows, search: Search) -> Parents:
    """The parents of each variable; in "tan" and "kdb" the last variable is the class."""
    if kind == "hill-climb":
        scores = FamilyScores(data, search.score, search.ess)
        return hill_climb(scores, len(data.sizes), max_parents=search.max_parents, tabu=search.tabu)
    if kind == "kdb":
        return kdb(data, search.max_parents - 1, search.min_information)
    return chow_liu(data) if kind == "chow-liu" else tan(data)


def chow_liu(data: CodedRows) -> Parents:
    """The tree of the greatest likelihood, whose root is the first variable (Chow & Liu 1968)."""
    nothing = np.zeros(data.codes.shape[1], dtype=np.int32)
    information = mutual_information(_pairs(data, nothing, 1), data.sizes)
    return tuple((parent,) if parent >= 0 else () for parent in maximum_spanning_tree(information).tolist())


def tan(data: CodedRows) -> Parents:
    """The class as a parent of all others, and the best tree among these given the class.

    Its root is the variable of the greatest mutual information with the class.
    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", section 4.1.
    """
    last = len(data.sizes) - 1
    of_pairs, of_class = _information(data)
    tree = maximum_spanning_tree(of_pairs, int(of_class.argmax())).tolist()
    return (*((last, parent) if parent >= 0 else (last,) for parent in tree), ())


def kdb(data: CodedRows, k: int, min_information: float) -> Parents:
    """The class as a parent of all others, and up to k further parents of each, of those ranked before it.

    Variables are ranked by mutual information with the class. The parents are those of the greatest mutual information
    with the variable given the class, if that is more than `min_information`.
    Sahami (1996), "Learning limited dependence Bayesian classifiers", KDD-96.
    """
    last = len(data.sizes) - 1
    of_pairs, of_class = _information(data)
    parents: list[tuple[int, ...]] = [()] * (last + 1)
    order = np.argsort(-of_class, kind="stable")
    for place, variable in enumerate(order):
        before = order[:place]
        best = before[np.argsort(-of_pairs[variable, before], kind="stable")][:k]
        parents[variable] = (last, *best[of_pairs[variable, best] > min_information].tolist())
    return tuple(parents)


def _information(data: CodedRows) -> tuple[Array, Array]:
    """Mutual information of every two variables given the class (the last variable), and of each with the class."""
    last = len(data.sizes) - 1
    y = data.codes[last].astype(np.int32) - 1
    others = replace(data, codes=np.ascontiguousarray(data.codes[:last]), sizes=data.sizes[:last])
    n_classes = int(data.sizes[last])
    of_pairs = mutual_information(_pairs(others, y, n_classes), others.sizes)
    counts = class_counts(_labelled(others, y), others.sizes + 1, n_classes)
    return of_pairs, class_information(without_missing(counts, others.sizes + 1), others.sizes)


def _pairs(data: CodedRows, y: NDArray[np.int32], n_classes: int) -> NDArray[Any]:
    n_codes = data.sizes + 1
    return without_missing(pair_counts(_labelled(data, y), n_codes, n_classes), n_codes)


def _labelled(data: CodedRows, y: NDArray[np.int32]) -> LabelledCodes:
    return LabelledCodes(data.codes, y, data.weights, data.n_threads, data.comm)
