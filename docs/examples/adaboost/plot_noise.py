"""
Label noise: bagging and boosting
=================================

A share of the training labels is flipped at random. Boosting gives these rows ever larger weights, while bagging
averages trees that each see only some of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from fastens import AdaBoostClassifier, BaggingClassifier, DecisionTreeClassifier, GradientBoostingClassifier

X, y = make_classification(3000, n_features=12, n_informative=6, flip_y=0, class_sep=1.2, random_state=0)
rng = np.random.default_rng(0)
shares = [0, 0.05, 0.1, 0.2, 0.3]
models = {
    "one tree": DecisionTreeClassifier(random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(), n_estimators=100, random_state=0),
    "AdaBoost of trees": AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=100, random_state=0),
    "gradient boosting": GradientBoostingClassifier(),
}
for name, model in models.items():
    errors = []
    for share in shares:
        labels = np.where(rng.random(1000) < share, 1 - y[:1000], y[:1000])
        errors.append(1 - model.fit(X[:1000], labels).score(X[1000:], y[1000:]))
    plt.plot(shares, errors, marker="o", label=name)
plt.xlabel("share of training labels flipped")
plt.ylabel("error on test rows without label noise")
plt.legend()
plt.show()
