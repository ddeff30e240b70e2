"""
Linear leaves
=============

Leaves that contain linear models instead of constants follow a slope with few splits.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 400)
y = np.where(x < 4, x, 12 - 2 * x) + rng.normal(scale=0.5, size=400)
grid = np.linspace(-1, 11, 500)[:, None]

plt.scatter(x, y, s=4, color="0.7")
for name, linear in [("constant leaves", False), ("linear leaves", True)]:
    model = GradientBoostingRegressor(n_estimators=30, max_leaf_nodes=4, linear_leaves=linear).fit(x[:, None], y)
    plt.plot(grid, model.predict(grid), label=name)
plt.legend()
plt.show()
