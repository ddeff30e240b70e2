"""Version spaces and trees, gone through one by one: the specification of concepts.spaces and trees.tree_average."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

STAR = None


def conjunctions(sizes) -> list[tuple]:
    """Every conjunction: a value or STAR for each attribute; () covers nothing."""
    return [(), *itertools.product(*([*range(size), STAR] for size in sizes))]


def covers(h: tuple, x) -> bool:
    """Whether a hypothesis covers an instance; -1 is a missing value."""
    return h != () and all(value is STAR or value == found for value, found in zip(h, x, strict=True))


def n_constraints(h: tuple, n: int) -> int:
    """Its length; that of the empty one is the number of attributes."""
    return n if h == () else sum(value is not STAR for value in h)


def errors(h: tuple, X, y, weight) -> float:
    """Weight of the examples it gets wrong."""
    return sum(w for x, label, w in zip(X, y, weight, strict=True) if covers(h, x) != bool(label))


def posterior(X, y, sizes, *, base=1.0, noise=0.0, weight=None):
    """Hypotheses, their posterior, and the log evidence; None and minus infinity for an empty version space."""
    weight = np.ones(len(X)) if weight is None else weight
    found = conjunctions(sizes)
    prior = np.array([base ** n_constraints(h, len(sizes)) for h in found])
    wrong = np.array([errors(h, X, y, weight) for h in found])
    likelihood = np.array([0.0**e if noise == 0 else noise**e * (1 - noise) ** (np.sum(weight) - e) for e in wrong])
    joint = prior / prior.sum() * likelihood
    return found, joint / joint.sum(), np.log(joint.sum())


def more_general(h: tuple, g: tuple, sizes) -> bool:
    """Whether h covers every instance that g covers, by looking at all instances."""
    return all(covers(h, x) for x in itertools.product(*map(range, sizes)) if covers(g, x))


def boundaries(members: list[tuple], sizes) -> tuple[set, set]:
    """The most specific and the most general of some hypotheses."""
    above = {(h, g): more_general(h, g, sizes) for h in members for g in members}
    general = {g for g in members if not any(above[h, g] and not above[g, h] for h in members)}
    specific = {g for g in members if not any(above[g, h] and not above[h, g] for h in members)}
    return specific, general


# Trees --------------------------------------------------


def log_leaf(counts, alpha: float) -> float:
    """Evidence of class counts under a symmetric Dirichlet."""
    counts = np.asarray(counts, dtype=float)
    k, n = len(counts), np.sum(counts)
    return float(gammaln(k * alpha) - gammaln(k * alpha + n) + np.sum(gammaln(alpha + counts) - gammaln(alpha)))


def trees(free: tuple[int, ...]) -> Iterator:
    """Every tree over binary attributes: None for a leaf, or (attribute, tree where it is 0, tree where it is 1)."""
    yield None
    for j in free:
        rest = tuple(i for i in free if i != j)
        for left in trees(rest):
            for right in trees(rest):
                yield (j, left, right)


def log_joint(tree, X, y, free: tuple[int, ...], rules) -> float:
    """Log of prior times likelihood; `rules` = (number of classes, alpha, g as a function of the depth)."""
    n_classes, alpha, split = rules
    depth = X.shape[1] - len(free)
    stop = np.log1p(-split(depth)) if free else 0.0
    if tree is None:
        return stop + log_leaf(np.bincount(y, minlength=n_classes), alpha)
    j, left, right = tree
    rest = tuple(i for i in free if i != j)
    parts = [log_joint(part, X[X[:, j] == v], y[X[:, j] == v], rest, rules) for v, part in enumerate((left, right))]
    return np.log(split(depth) / len(free)) + sum(parts)


def tree_proba(tree, X, y, x, rules):
    """The tree's class probabilities for one row."""
    n_classes, alpha, _ = rules
    if tree is None:
        counts = np.bincount(y, minlength=n_classes)
        return (counts + alpha) / (counts.sum() + n_classes * alpha)
    j, *parts = tree
    inside = X[:, j] == x[j]
    return tree_proba(parts[x[j]], X[inside], y[inside], x, rules)


def all_log_joints(X, y, free: tuple[int, ...], rules) -> np.ndarray:
    """The logs of prior times likelihood of all trees, without naming them: 238 145 of them for four attributes."""
    n_classes, alpha, split = rules
    depth = X.shape[1] - len(free)
    stop = np.log1p(-split(depth)) if free else 0.0
    found = [np.array([stop + log_leaf(np.bincount(y, minlength=n_classes), alpha)])]
    for j in free:
        rest = tuple(i for i in free if i != j)
        left, right = (all_log_joints(X[X[:, j] == v], y[X[:, j] == v], rest, rules) for v in (0, 1))
        found.append(np.log(split(depth) / len(free)) + np.add.outer(left, right).ravel())
    return np.concatenate(found)
