"""
Importance and dependence
=========================

How much each column lowers the loss, and how the prediction goes with one of them, the others as they are in the
table.
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
