"""
Bootstrap samples
=================

Three bootstrap samples of ten rows, and the mean of many trees that are each fitted to such a sample. Single trees
follow the noise, while their mean follows the curve.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import BaggingRegressor, DecisionTreeRegressor

samples = [[7, 2, 6, 7, 5, 4, 8, 8, 1, 0], [1, 3, 8, 0, 3, 5, 8, 0, 1, 9], [2, 9, 4, 2, 7, 9, 3, 0, 1, 0]]
for sample in samples:
    print(sample, "- out of bag", sorted(set(range(10)) - set(sample)))

# %%
# Trees fitted to a hundred rows of a sine curve with noise:
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, 100))
y = np.sin(x) + rng.normal(scale=0.4, size=100)
bag = BaggingRegressor(DecisionTreeRegressor(), n_estimators=100, random_state=0).fit(x[:, None], y)
grid = np.linspace(0, 6, 500)[:, None]

plt.scatter(x, y, s=8, color="0.6")
for tree in bag.estimators_[:10]:
    plt.plot(grid, tree.predict(grid), color="tab:blue", alpha=0.15)
plt.plot(grid, bag.predict(grid), color="tab:red", label="mean of 100 trees")
plt.plot(grid, np.sin(grid), color="k", linestyle="--", label="true function")
plt.legend()
plt.show()
