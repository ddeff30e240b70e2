"""
Calibration of predicted probabilities
======================================

If a model predicts a probability of 70 %, seven of ten such rows should be positive. The calibration curves compare
models with default settings and without additional calibration.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from fastens import AdaBoostClassifier, ExtraTreesClassifier, GaussianNB, GradientBoostingClassifier

X, y = make_classification(12_000, n_features=10, n_informative=4, n_redundant=4, flip_y=0.1, random_state=0)
models = {
    "boosting": GradientBoostingClassifier(),
    "extra trees": ExtraTreesClassifier(random_state=0),
    "AdaBoost": AdaBoostClassifier(n_estimators=200),
    "naive Bayes": GaussianNB(),
}
plt.plot([0, 1], [0, 1], "k--")
for name, model in models.items():
    chance = model.fit(X[:4000], y[:4000]).predict_proba(X[4000:])[:, 1]
    observed, predicted = calibration_curve(y[4000:], chance, n_bins=15)
    plt.plot(predicted, observed, marker="o", markersize=3, label=f"{name}, log loss {log_loss(y[4000:], chance):.3f}")
plt.xlabel("predicted")
plt.ylabel("observed")
plt.legend()
plt.show()
