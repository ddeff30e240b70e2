"""
Conformal prediction intervals
==============================

A conformal prediction interval contains nine of ten targets for any model. By default, the width of the interval adapts
to each row. An interval of constant width is too wide where the noise is small.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import ConformalRegressor, GradientBoostingRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 3000))
y = np.sin(x) + rng.normal(scale=0.05 + 0.06 * x)
train = np.arange(3000) % 2 == 0

figure, axes = plt.subplots(1, 2, figsize=(12, 4), sharey=True, layout="constrained")
for ax, method in zip(axes, ["constant", "auto"], strict=True):
    model = ConformalRegressor(GradientBoostingRegressor(), method=method, random_state=0)
    low, high = model.fit(x[train, None], y[train]).predict_interval(x[~train, None], coverage=0.9).T
    covered = np.mean((low <= y[~train]) & (y[~train] <= high))
    ax.scatter(x[~train], y[~train], s=3, color="0.6")
    ax.fill_between(x[~train], low, high, alpha=0.3)
    ax.set_title(f'method="{method}": {covered:.1%} inside, mean width {np.mean(high - low):.2f}')
