"""
Early stopping
==============

More rounds always lower the loss on the training rows, but the loss on other rows rises again at some point. With
``early_stopping``, some rows are held out, and training stops when their loss no longer falls.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from fastens import GradientBoostingClassifier

X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True, as_frame=True), random_state=0)
long = GradientBoostingClassifier(n_estimators=400, learning_rate=0.1, random_state=0).fit(X, y)
stopped = GradientBoostingClassifier(n_estimators=400, early_stopping=True, random_state=0).fit(X, y)

for name, (rows, labels) in {"training rows": (X, y), "test rows": (X_test, y_test)}.items():
    plt.plot([log_loss(labels, p) for p in long.staged_predict_proba(rows)], label=name)
plt.axvline(stopped.n_estimators_, color="k", linestyle="--", label=f"stopped after {stopped.n_estimators_} rounds")
plt.yscale("log")
plt.xlabel("rounds")
plt.ylabel("log loss")
plt.legend()
plt.show()
