"""
Sample weights over the rounds
==============================

After each round, the rows that the stump misclassified get larger weights. Most of the weight moves to rows near the
decision boundary and to mislabelled rows. The algorithm is AdaBoost.M1 with weights instead of resampling.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from fastens import AdaBoostClassifier

X, y = make_moons(120, noise=0.25, random_state=0)
model = AdaBoostClassifier(algorithm="m1", n_estimators=30).fit(X, y)
weights = list(model.staged_weights(X, y))

figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for ax, done in zip(axes, [0, 1, 3, 20], strict=True):
    ax.scatter(*X.T, s=4000 * weights[done] / weights[done].max() * 0.04 + 2, c=y, cmap="coolwarm", alpha=0.7)
    ax.set(title=f"after {done} rounds", xticks=[], yticks=[])

# %%
# The confidences of the first five classifiers, which are half the logarithm of (1 - error) / error:
print(np.round(model.estimator_weights_[:5] / 2, 3))
