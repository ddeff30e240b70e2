"""The posterior over all prunings of a tree by naming every one of them: the specification of engine/prunings.py."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Pruning(NamedTuple):
    """The nodes that are leaves, those that split, and the log of the prior probability."""

    leaves: frozenset[int]
    splits: frozenset[int]
    log_prior: float


def prunings(left_child, split_prior, node=0):
    """Every pruning of the part of a tree below a node."""
    left = int(left_child[node])
    if left == 0:
        yield Pruning(frozenset([node]), frozenset(), 0.0)
        return
    yield Pruning(frozenset([node]), frozenset(), math.log(1 - split_prior[node]))
    for a in prunings(left_child, split_prior, left):
        for b in prunings(left_child, split_prior, left + 1):
            log_prior = math.log(split_prior[node]) + a.log_prior + b.log_prior
            yield Pruning(a.leaves | b.leaves, a.splits | b.splits | {node}, log_prior)


def log_joints(left_child, log_evidence, split_prior):
    """All prunings, and the log of the joint probability of each with the rows."""
    found = list(prunings(left_child, split_prior))
    return found, np.array([p.log_prior + sum(log_evidence[leaf] for leaf in p.leaves) for p in found])


def way_to(left_child, node):
    """The nodes from the root to a node."""
    parent = {int(left) + side: i for i, left in enumerate(left_child) if left for side in (0, 1)}
    way = [node]
    while way[-1]:
        way.append(parent[way[-1]])
    return way[::-1]


def dirichlet_sequence(classes, alpha, n_classes):
    """Log of the probability of classes one after the other, each predicted from those before it."""
    alphas = alpha if isinstance(alpha, tuple) else (alpha,) * n_classes
    counts, total = [0] * n_classes, 0.0
    for k in classes:
        total += math.log((counts[k] + alphas[k]) / (sum(counts) + sum(alphas)))
        counts[k] += 1
    return total
