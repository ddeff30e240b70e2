"""
The average over all prunings of a tree
=======================================

A fully grown tree has too many prunings to list. Their posterior is computed exactly in one pass from the leaves to the
root, and predictions are averages over all prunings. They are Bayes-optimal for this hypothesis space.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import BayesTreeClassifier, DecisionTreeClassifier

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 1, 200))
chance = np.where(x < 0.3, 0.2, np.where(x < 0.7, 0.8, 0.4))
y = rng.random(200) < chance

tree = BayesTreeClassifier(random_state=0).fit(x[:, None], y)
single = DecisionTreeClassifier(max_depth=4, random_state=0).fit(x[:, None], y)
grid = np.linspace(0, 1, 500)[:, None]
low, high = tree.predict_proba_interval(grid, coverage=0.9)[:, 1].T

plt.scatter(x, y, s=4, color="0.5")
plt.plot(grid, np.where(grid < 0.3, 0.2, np.where(grid < 0.7, 0.8, 0.4)), "k--", label="true probability")
plt.plot(grid, single.predict_proba(grid)[:, 1], color="tab:orange", alpha=0.6, label="one tree of depth 4")
plt.plot(grid, tree.predict_proba(grid)[:, 1], color="tab:blue", label="mean over all prunings")
plt.fill_between(grid[:, 0], low, high, alpha=0.2, label="90 % credible interval")
plt.legend()
plt.show()
print(f"{tree.expected_n_leaves_:.1f} leaves expected, of {tree.get_n_leaves()} grown")
