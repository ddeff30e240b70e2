"""
Errors and losses by round
==========================

AdaBoost lowers the exponential loss on the training rows, which is an upper bound of their 0-1 loss. The product of 2
sqrt(e (1 - e)) over the rounds, where e is the weighted error of a round, bounds both losses. The test error can keep
falling after the training error has reached its minimum.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_hastie_10_2

from fastens import AdaBoostClassifier

X, y = make_hastie_10_2(4000, random_state=0)
X, y, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]
model = AdaBoostClassifier(n_estimators=400).fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
model.plot_errors(X, y, X_val=X_test, y_val=y_test, ax=left)

signs = np.where(y == model.classes_[1], 1.0, -1.0)
exponential = [np.exp(-signs * raw / 2).mean() for raw in model.staged_decision_function(X)]
right.plot(exponential, label="exponential loss")
right.plot(model.staged_errors(X, y), label="0-1 loss")
right.set(xlabel="rounds", ylabel="mean over the training rows")
right.legend()
