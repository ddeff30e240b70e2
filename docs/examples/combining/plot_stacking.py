"""
Stacking on two levels
======================

The final estimator of a stack is trained on out-of-fold predictions of the base estimators. A stack can be a base
estimator of another stack.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastens import ExtraTreesClassifier, GaussianNB, GradientBoostingClassifier, StackingClassifier

X, y = load_breast_cancer(return_X_y=True)
boosting, trees = GradientBoostingClassifier(), ExtraTreesClassifier(random_state=0)
line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
one = StackingClassifier([("boosting", boosting), ("trees", trees), ("line", line)])
two = StackingClassifier([("stack", one), ("line", line), ("bayes", GaussianNB())])
models = {"boosting": boosting, "extra trees": trees, "logistic": line, "stack": one, "stack of a stack": two}

losses = [log_loss(y, cross_val_predict(model, X, y, cv=3, method="predict_proba")) for model in models.values()]
plt.figure(layout="constrained")
plt.barh(list(models), losses)
plt.xlabel("log loss, three folds")
plt.show()
