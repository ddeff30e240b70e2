"""
Diversity of an ensemble
========================

An ensemble improves on its members if they make errors on different rows. Both plots compare all pairs of six models.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fastens import (
    AdaBoostClassifier,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    GaussianNB,
    GradientBoostingClassifier,
)
from fastens.inspection.diversity import plot_diversity, plot_kappa_error

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
models = {
    "tree": DecisionTreeClassifier(random_state=0),
    "AdaBoost": AdaBoostClassifier(n_estimators=100),
    "boosting": GradientBoostingClassifier(n_estimators=30),
    "extra trees": ExtraTreesClassifier(random_state=0),
    "bayes": GaussianNB(var_smoothing=1e-3),
    "logistic": LogisticRegression(max_iter=3000),
}
predictions = {name: model.fit(X, y).predict(X_test) for name, model in models.items()}

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
plot_diversity(predictions, y_test, ax=left)
plot_kappa_error(predictions, y_test, ax=right)
