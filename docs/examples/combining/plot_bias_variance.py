"""
Bias and variance
=================

The expected squared error is the sum of the squared bias, the variance over training samples, and the noise. Deep trees
have low bias and high variance. Bagging keeps the bias and reduces the variance. Boosting starts with high bias and
trades it for variance, round by round.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import BaggingRegressor, DecisionTreeRegressor, GradientBoostingRegressor, plot_bias_variance

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (600, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + rng.normal(scale=0.5, size=600)

figure, axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
tree = DecisionTreeRegressor(random_state=0)
plot_bias_variance(tree, X, y, param_name="max_depth", param_range=[1, 2, 3, 4, 6, 8, 12], ax=axes[0])
bag = BaggingRegressor(DecisionTreeRegressor(), random_state=0)
plot_bias_variance(bag, X, y, param_name="n_estimators", param_range=[1, 2, 4, 8, 16, 32], ax=axes[1])
boosting = GradientBoostingRegressor(max_leaf_nodes=8, split_penalty=0)
plot_bias_variance(boosting, X, y, param_name="n_estimators", param_range=[1, 4, 16, 64, 256], ax=axes[2])
axes[2].set_xscale("log")
for ax, title in zip(axes, ["one tree", "bagging", "gradient boosting"], strict=True):
    ax.set_title(title)
