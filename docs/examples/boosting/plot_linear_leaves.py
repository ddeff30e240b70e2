"""
Linear leaves
=============

A leaf that holds a line in place of a number follows a slope with few splits, and goes on beyond the last row.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 400)
y = np.where(x < 4, x, 12 - 2 * x) + rng.normal(scale=0.5, size=400)
grid = np.linspace(-1, 11, 500)[:, None]

plt.scatter(x, y, s=4, color="0.7")
for name, linear in [("numbers in the leaves", False), ("lines in the leaves", True)]:
    model = GradientBoostingRegressor(n_estimators=30, max_leaf_nodes=4, linear_leaves=linear).fit(x[:, None], y)
    plt.plot(grid, model.predict(grid), label=name)
plt.legend()
plt.show()
