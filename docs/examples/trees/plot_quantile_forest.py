"""
Quantiles of a forest
=====================

With ``keep_leaves=True``, a regression forest keeps the targets of the training rows in each leaf, so it can predict
any quantile.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import RandomForestRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 1500))
y = np.sin(x) + rng.normal(scale=0.05 + 0.08 * x)

model = RandomForestRegressor(n_estimators=200, min_samples_leaf=20, keep_leaves=True, random_state=0).fit(
    x[:, None], y
)
low, median, high = model.predict_quantiles(x[:, None], [0.05, 0.5, 0.95]).T

plt.scatter(x, y, s=4, color="0.6")
plt.plot(x, median, label="median")
plt.fill_between(x, low, high, alpha=0.3, label="90 % of the targets")
plt.legend()
plt.show()
