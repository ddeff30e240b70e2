"""Naive vocabulary and counts of text columns."""

import re
from unicodedata import normalize

import numpy as np


def terms_of(text, analyzer, least, most):
    text = normalize("NFKC", text)
    if analyzer not in ("word", "char"):
        return [item.strip() for item in text.split(analyzer) if item.strip()]
    text = text.lower()
    if analyzer == "word":
        words = [word for word in re.split(r"\W+", text) if len(word) > 1]
        return [" ".join(words[i : i + n]) for n in range(least, most + 1) for i in range(len(words) - n + 1)]
    found = []
    for word in text.split():
        own = f" {word} "
        short = [own] if len(own) <= least else []
        sizes = range(least, most + 1)
        found += short or [own[i : i + n] for n in sizes for i in range(len(own) - n + 1)]
    return found


def vocabulary(texts, max_terms, analyzer="word", least=1, most=1):
    """The terms of most distinct texts, by their share and then by their order."""
    of_texts = [set(terms_of(text, analyzer, least, most)) for text in set(texts) if isinstance(text, str)]
    shares = {term: sum(term in own for own in of_texts) for own in of_texts for term in own}
    return sorted(sorted(shares, key=lambda term: (-shares[term], term))[:max_terms])


def counts(texts, terms, analyzer="word", least=1, most=1):
    """The number of times that each term occurs in each text; 0 in missing ones."""
    found = [terms_of(text, analyzer, least, most) if isinstance(text, str) else [] for text in texts]
    return np.array([[own.count(term) for term in terms] for own in found], dtype=float).reshape(len(texts), len(terms))


def scores_of_texts(counts, y, weight, fold=None, n_folds=10):
    """The sum of the mean targets of the terms of each text, minus the overall mean, over the rows of other folds.

    Without folds, the means are over all rows.
    """
    mean = sum(weight * y) / sum(weight)
    found = np.zeros(len(counts))
    for row, text in enumerate(counts):
        for term, n in enumerate(text):
            others = [i for i in range(len(y)) if fold is None or fold[i] != fold[row]]
            copies = [counts[i][term] * weight[i] for i in others]
            total = sum(count * y[i] for count, i in zip(copies, others, strict=True))
            found[row] += n * ((total + mean) / (sum(copies) + 1) - mean)
    return found
