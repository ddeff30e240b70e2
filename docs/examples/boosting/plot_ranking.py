"""
Learning to rank
================

A ranker learns the order in which to show the documents of a query. It compares pairs of documents within each query,
and weights each pair by the change in NDCG that swapping the two documents would cause.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRanker, GradientBoostingRegressor

rng = np.random.default_rng(0)
n_queries, size = 300, 20
query = np.repeat(np.arange(n_queries), size)
X = rng.normal(size=(n_queries * size, 6))
X[:, 5] += 3 * rng.normal(size=n_queries)[query]  # a column that differs between queries only
relevance = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.5, size=len(X)) + 1), 0, 4)
train, test = query < 200, query >= 200

model = GradientBoostingRanker(n_estimators=100).fit(X[train], relevance[train], qid=query[train])
scores = model.predict(X[test]).reshape(-1, size)
numbers = GradientBoostingRegressor(n_estimators=100).fit(X[train], relevance[train]).predict(X[test]).reshape(-1, size)
truth = relevance[test].reshape(-1, size)

for name, order in {"ranker": scores, "regressor": numbers, "at random": rng.random(truth.shape)}.items():
    shown = np.take_along_axis(truth, np.argsort(-order, axis=1), axis=1)
    plt.plot(np.arange(1, size + 1), shown.mean(axis=0), marker="o", label=name)
plt.xlabel("position")
plt.ylabel("mean relevance of the document at this position")
plt.legend()
plt.show()
