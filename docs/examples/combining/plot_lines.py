"""
Three linear models that bound a triangle
=========================================

A single line divides the plane into two parts and cannot bound a triangle, but the vote of three lines can. An ensemble
of simple hypotheses is a hypothesis of a larger space. Here each linear model has learned one side of the triangle, and
a row is inside if all three agree. Boosting finds weighted, axis-aligned lines without being given the sides.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from fastens import AdaBoostClassifier

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 2))
sides = np.array([[0.0, 1.0, 0.5], [0.9, -0.5, 0.45], [-0.9, -0.5, 0.45]])  # inside: a x + b y + c > 0
above = X @ sides[:, :2].T + sides[:, 2] > 0
inside = above.all(axis=1)

lines = [LogisticRegression(C=1e4).fit(X, column) for column in above.T]
one = LogisticRegression(C=1e4, class_weight="balanced").fit(X, inside)
boosted = AdaBoostClassifier(n_estimators=200).fit(X, inside)
models = {
    "one line": one.predict,
    "three lines that agree": lambda rows: np.all([line.predict(rows) for line in lines], axis=0),
    "boosting, 200 axis-aligned lines": boosted.predict,
}

grid = np.stack(np.meshgrid(np.linspace(-1, 1, 200), np.linspace(-1, 1, 200)), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, (name, predict) in zip(axes, models.items(), strict=True):
    predicted = predict(grid).reshape(200, 200)
    ax.contourf(*grid.T.reshape(2, 200, 200), predicted, levels=[-1, 0.5, 2], alpha=0.3, cmap="coolwarm")
    ax.scatter(*X.T, s=6, c=inside, cmap="coolwarm")
    ax.set(title=f"{name}: {np.mean(predict(X) == inside):.0%} correct", xticks=[], yticks=[])
