"""
Quantiles that never cross
==========================

With ``loss="quantile"`` and a list of levels, one model predicts all quantiles, and they never cross.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 2000))
y = np.sin(x) * x / 3 + rng.gamma(2.0, 0.1 + 0.15 * x)

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
model = GradientBoostingRegressor(loss="quantile", quantile=levels, n_estimators=150).fit(x[:, None], y)
predictions = model.predict(x[:, None])
assert (np.diff(predictions, axis=1) >= 0).all()

plt.scatter(x, y, s=3, color="0.7")
for level, line in zip(levels, predictions.T, strict=True):
    below = np.mean(y <= line)
    plt.plot(x, line, label=f"{level:.0%}: {below:.1%} of the rows lie below")
plt.legend()
plt.show()
