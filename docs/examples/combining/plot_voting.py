"""
Hard and soft voting
====================

In hard voting, each model has one vote. In soft voting, the mean of the predicted probabilities decides, so confident
models count for more. The third plot shows where the two differ.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

from fastens import DecisionTreeClassifier, GaussianNB, VotingClassifier

X, y = make_moons(300, noise=0.3, random_state=0)
members = [
    ("line", LogisticRegression()),
    ("tree", DecisionTreeClassifier(max_depth=3, random_state=0)),
    ("bayes", GaussianNB()),
]
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 250), np.linspace(-1.5, 2, 250)), axis=-1)
rows = grid.reshape(-1, 2)

figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
votes = {}
for ax, how in zip(axes, ["hard", "soft"], strict=False):
    model = VotingClassifier(members, voting=how).fit(X[:150], y[:150])
    votes[how] = model.predict(rows).reshape(250, 250)
    ax.contourf(grid[..., 0], grid[..., 1], votes[how], levels=1, cmap="coolwarm", alpha=0.4)
    ax.scatter(*X.T, c=y, s=6, cmap="coolwarm")
    ax.set_title(f"{how}: {model.score(X[150:], y[150:]):.2f}")
axes[2].contourf(grid[..., 0], grid[..., 1], votes["hard"] != votes["soft"], levels=1, cmap="Greys")
axes[2].set_title("where they differ")
