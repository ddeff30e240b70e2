"""
An additive model of stumps
===========================

Each stump uses a single column, so an ensemble of stumps is the sum of one curve for each column. Such a model is easy
to interpret.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from fastens import AdaBoostClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = AdaBoostClassifier(n_estimators=200, learning_rate=0.5).fit(X, y)
columns = np.asarray(X.columns)[np.argsort(-model.feature_importances_)[:4]]

figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
for ax, column in zip(axes, columns, strict=True):
    model.plot_contribution_curve(column, ax=ax)
