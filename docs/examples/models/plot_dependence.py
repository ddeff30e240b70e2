"""
Feature importance and partial dependence
=========================================

The first plot shows how much the splits on each column lower the training loss. The others show how the mean prediction
depends on one column while all other columns keep their values.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from fastens import RandomForestRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = RandomForestRegressor(random_state=0).fit(X, y)

figure, axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
model.plot_importance(ax=axes[0])
model.plot_dependence(X, ["bmi"], ax=axes[1])
model.plot_dependence(X, ["s5"], ax=axes[2])
