"""
Custom loss functions
=====================

A function that returns the gradients and hessians of a loss, given the targets and the raw predictions, can be passed
as ``loss``. This asymmetric loss penalises a prediction below the target three times as much as a prediction above it.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRegressor


def costly_shortage(y, raw):
    """Return gradients and hessians of half the squared error, times three if the prediction is too low."""
    weight = np.where(raw < y, 3.0, 1.0)
    return weight * (raw - y), weight


rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 800))
y = np.sin(x) + rng.normal(scale=0.3, size=800)

plt.scatter(x, y, s=4, color="0.7")
for name, loss in {"squared error": "squared_error", "shortage costs three times": costly_shortage}.items():
    model = GradientBoostingRegressor(loss=loss, n_estimators=50, learning_rate=0.2).fit(x[:, None], y)
    plt.plot(x, model.predict(x[:, None]), label=name)
plt.legend()
plt.show()
