"""
Bootstrap samples
=================

Three samples of ten rows, drawn with replacement, and the mean of many trees of such samples: single trees follow the
noise, their mean follows the curve.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import BaggingRegressor, DecisionTreeRegressor

rng = np.random.default_rng(0)
for sample in rng.integers(0, 10, (3, 10)):
    print(sorted(sample.tolist()), "- out of sample", sorted(set(range(10)) - set(sample.tolist())))

# %%
# Trees of a hundred rows of a sine with noise:
x = np.sort(rng.uniform(0, 6, 100))
y = np.sin(x) + rng.normal(scale=0.4, size=100)
bag = BaggingRegressor(DecisionTreeRegressor(), n_estimators=100, random_state=0).fit(x[:, None], y)
grid = np.linspace(0, 6, 500)[:, None]

plt.scatter(x, y, s=8, color="0.6")
for tree in bag.estimators_[:10]:
    plt.plot(grid, tree.predict(grid), color="tab:blue", alpha=0.15)
plt.plot(grid, bag.predict(grid), color="tab:red", label="mean of 100 trees")
plt.plot(grid, np.sin(grid), color="k", linestyle="--", label="without noise")
plt.legend()
plt.show()
