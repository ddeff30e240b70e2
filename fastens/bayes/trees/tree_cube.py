"""Bayes over all trees on a few binary features, by the count cube: evidence, predictions, MAP tree and samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.bayes.counts.count_cube import CountCube
from fastens.bayes.counts.cube import tree_evidence, tree_reach
from fastens.engine.elementary import exp, gammaln, log, log1p

Floats = NDArray[np.float64]
LEAF = -1
MOST_TABLED = 1 << 16  # counts whose log gamma is looked up: a megabyte
CLASSES_AT_ONCE = 64  # whose probabilities in all cells are held


@dataclass(frozen=True)
class Tree:
    """A tree over binary features as plain arrays; node 0 is the root.

    `question` is the feature that a node tests, -1 at leaves; `children` are the nodes for "no" and "yes"; `proba` are
    the expected class probabilities of a row in the node; `names` describe the features.
    """

    question: NDArray[np.int64]
    children: NDArray[np.int64]
    proba: Floats
    names: list[str]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.question == LEAF))

    def predict_proba(self, answers: ArrayLike) -> Floats:
        """Class probabilities of rows of binary features, which `answers(X)` of the model makes of its columns."""
        found = np.asarray(answers)
        if found.ndim != 2 or found.shape[1] != len(self.names) or not np.isin(found, (0, 1)).all():
            raise ValueError(
                f"answers must be the model's answers(X), a 0 or 1 for each of the {len(self.names)} questions; "
                f"got {answers!r}."
            )
        answers, node = found.astype(np.int64), np.zeros(len(found), dtype=np.int64)
        for _ in range(len(self.names)):
            tested = self.question[node]
            below = self.children[node, answers[np.arange(len(answers)), np.maximum(tested, 0)]]
            node = np.where(tested == LEAF, node, below)
        return self.proba[node]

    def __str__(self) -> str:
        return "\n".join(self._lines(0, ""))

    def _lines(self, node: int, indent: str) -> list[str]:
        if self.question[node] == LEAF:
            return [f"{indent}probabilities {np.round(self.proba[node], 3).tolist()}"]
        no, yes = self.children[node].tolist()
        name = self.names[self.question[node]]
        return [
            f"{indent}{name}: yes",
            *self._lines(yes, indent + "    "),
            f"{indent}{name}: no",
            *self._lines(no, indent + "    "),
        ]


class TreeCube:
    """The posterior over all trees on binary features, where no path tests one twice.

    A node at depth d is a leaf with probability 1 - split[d], else it tests one of the other features, each equally
    likely. Class probabilities of the leaves are Dirichlet(alpha). One number for each of the 3^p cells sums over all
    trees on it:

        q(cell) = (1 - g) f(cell) + g / |free| * sum over free j of q(cell, no) q(cell, yes)
    """

    def __init__(
        self,
        answers: NDArray[np.int64],
        classes: NDArray[np.int64],
        weight: Floats,
        n_classes: int,
        split: Floats,
        alpha: float,
    ) -> None:
        n_questions = answers.shape[1]
        self.cube = CountCube(answers, classes, weight, [2] * n_questions, n_classes)
        self._layout = np.stack([self.cube.sizes, self.cube.strides])
        n_free = n_questions - np.arange(n_questions)
        log_split = log(split / n_free)
        self._log_prior = np.stack([np.append(log1p(-split), 0.0), np.append(log_split, -np.inf)])
        self._alpha = alpha
        self._log_f, self._log_q = self._evidence(greatest=False)

    def _evidence(self, *, greatest: bool) -> tuple[Floats, Floats]:
        log_f, log_q = np.empty(len(self.cube)), np.empty(len(self.cube))
        n = np.arange(min(self.cube.counts[-1].sum(), MOST_TABLED) + 1)
        bases = np.array([[self._alpha], [self._alpha * self.cube.counts.shape[1]]])
        tables = gammaln(bases + n) - gammaln(bases)
        tree_evidence(self.cube.counts, self._layout, self._log_prior, self._alpha, tables, greatest, log_f, log_q)
        return log_f, log_q

    @property
    def log_evidence(self) -> float:
        """Log of the labels' probability, over all trees and all leaf values."""
        return float(self._log_q[-1])

    def leaf_proba(self, cells: Any, classes: slice = slice(None)) -> Floats:
        """The expected probabilities of classes in leaves on these cells."""
        counts = self.cube.counts[cells]
        totals = counts.sum(axis=-1, keepdims=True) + self._alpha * counts.shape[-1]
        return (counts[..., classes] + self._alpha) / totals

    def predictions(self) -> Floats:
        """For each of the 2^p combinations of answers, as binary numbers, the average prediction of all trees."""
        return self._average(lambda classes: self.leaf_proba(slice(None), classes))

    def votes(self) -> Floats:
        """For each of them and each class the probability of the trees in whose leaf it is the most probable."""
        best = self.cube.counts.argmax(axis=1)[:, None]
        return self._average(lambda classes: best == np.arange(self.cube.counts.shape[1])[classes])

    def _average(self, of_leaves: Callable[[slice], NDArray[Any]]) -> Floats:
        """The average of what leaves on all cells have for some classes.

        A row comes to a node on a cell with a probability that depends on the cell alone, so that one pass down and
        one sum over cells around each give all predictions.
        """
        reach = np.zeros(len(self.cube))
        reach[-1] = 1.0
        tree_reach(self._log_q, self._layout, self._log_prior, reach)
        log_stop = self._log_prior[0][self.cube.n_fixed()]
        ends = reach * exp(log_stop + self._log_f - self._log_q)
        every_answer = np.indices([2] * len(self.cube.sizes)).reshape(len(self.cube.sizes), -1).T
        cells = self.cube.cells_of(every_answer)
        found = np.empty((len(cells), self.cube.counts.shape[1]))
        for first in range(0, found.shape[1], CLASSES_AT_ONCE):
            some = slice(first, first + CLASSES_AT_ONCE)
            found[:, some] = self.cube.spread(ends[:, None] * of_leaves(some))[cells]
        return found / found.sum(axis=1, keepdims=True)

    # One tree --------------------------------------------------

    def map_tree(self, names: list[str]) -> tuple[Tree, float]:
        """The most probable tree and the log of its joint probability with the labels; ties go to the smaller tree."""
        log_f, log_m = self._evidence(greatest=True)

        def choose(cell: int) -> int:
            options, terms = self._terms(cell, log_f, log_m)
            return options[int(terms.argmax())]

        return self._build(choose, names), float(log_m[-1])

    def random_tree(self, names: list[str], random: np.random.Generator) -> Tree:
        """A tree drawn from the posterior."""

        def choose(cell: int) -> int:
            options, terms = self._terms(cell, self._log_f, self._log_q)
            cumulative = np.cumsum(exp(terms - terms.max()))
            return options[int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))]

        return self._build(choose, names)

    def _terms(self, cell: int, log_f: Floats, log_q: Floats) -> tuple[list[int], Floats]:
        """The choices of a node on the cell, to be a leaf or to test a free feature, and the log weight of each."""
        free = np.flatnonzero(self.cube.digits_of(cell) < 0)
        depth = len(self.cube.sizes) - len(free)
        no, yes = (cell - by * self.cube.strides[free] for by in (2, 1))
        terms = self._log_prior[1, depth] + log_q[yes] + log_q[no]
        return [LEAF, *free.tolist()], np.append(self._log_prior[0, depth] + log_f[cell], terms)

    def random_leaves(self, answers: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """For each row the cell of its leaf in a tree of its own, drawn from the posterior."""
        cells = np.full(len(answers), len(self.cube) - 1)
        is_free = np.ones(answers.shape, dtype=bool)
        moving = np.arange(len(answers))
        while len(moving):
            cell, free = cells[moving], is_free[moving]
            depth = np.count_nonzero(~free, axis=1)
            parts = [np.where(free, cell[:, None] - by * self.cube.strides, 0) for by in (1, 2)]
            terms = self._log_prior[1, depth][:, None] + self._log_q[parts[0]] + self._log_q[parts[1]]
            splits = exp(np.where(free, terms, -np.inf) - self._log_q[cell][:, None])
            stops = exp(self._log_prior[0, depth] + self._log_f[cell] - self._log_q[cell])
            cumulative = np.cumsum(np.column_stack([stops, splits]), axis=1)
            chosen = (random.random(len(moving))[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1) - 1
            moving, chosen = moving[chosen >= 0], chosen[chosen >= 0]
            is_free[moving, chosen] = False
            cells[moving] -= (2 - answers[moving, chosen]) * self.cube.strides[chosen]
        return cells

    def _build(self, choose: Callable[[int], int], names: list[str]) -> Tree:
        cells, question, children = [len(self.cube) - 1], list[int](), list[list[int]]()
        while len(question) < len(cells):
            cell = cells[len(question)]
            tested = choose(cell)
            question.append(tested)
            children.append([LEAF, LEAF])
            if tested != LEAF:
                stride = int(self.cube.strides[tested])
                children[-1] = [len(cells), len(cells) + 1]
                cells += [cell - 2 * stride, cell - stride]
        return Tree(np.array(question), np.array(children), self.leaf_proba(np.array(cells)), names)


def n_trees(n_questions: int) -> int:
    """The number of trees in which no path tests a feature twice: t_p = 1 + p t_(p-1)^2.

    Examples
    --------
    >>> from fastens.bayes.trees.tree_cube import n_trees
    >>> [n_trees(p) for p in range(5)]
    [1, 2, 9, 244, 238145]
    """
    found = 1
    for p in range(1, n_questions + 1):
        found = 1 + p * found**2
    return found
