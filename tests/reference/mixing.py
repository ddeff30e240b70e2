"""Posteriors over classifiers, the plain way: the specification of fastens.bayes.hypotheses.combination."""

from __future__ import annotations

import numpy as np
from scipy import integrate


def likelihood(responses, y, noise) -> float:
    """P(D | h) of one member: product over the rows, integrated over an unknown noise."""
    n_classes = responses.shape[1]
    if noise is None:
        return float(np.prod([row[label] for row, label in zip(responses, y, strict=True)]))
    wrong = sum(row[label] == 0 for row, label in zip(responses, y, strict=True))

    def given(eps):
        return (1 - eps) ** (len(y) - wrong) * (eps / (n_classes - 1)) ** wrong

    if np.isscalar(noise):
        return given(noise)
    a, b = noise
    beta = integrate.quad(lambda e: e ** (a - 1) * (1 - e) ** (b - 1), 0, 1)[0]
    return integrate.quad(lambda e: given(e) * e ** (a - 1) * (1 - e) ** (b - 1) / beta, 0, 1)[0]


def mixture_log_likelihood(weights, p) -> float:
    """Log probability of the rows under a mixture; p has a row of probabilities for each member."""
    return float(np.log(np.asarray(weights) @ p).sum())
