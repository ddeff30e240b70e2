"""
Conformal prediction sets
=========================

A conformal classifier predicts a set of classes that contains the true class for nine of ten rows. Easy rows get a
single class, and ambiguous digits get several.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastens import ConformalClassifier, RandomForestClassifier

digits = load_digits()
X, X_new, y, y_new = train_test_split(digits.data, digits.target, train_size=150, random_state=0)
forest = RandomForestClassifier(random_state=0)
model = ConformalClassifier(forest, conformity="lac", cv=5).fit(X, y)
sets = model.predict_set(X_new, coverage=0.9)
sizes = sets.sum(axis=1)
covered = sets[np.arange(len(y_new)), y_new].mean()

figure, axes = plt.subplots(1, 6, figsize=(12, 2.8), layout="constrained", width_ratios=[2.6, 1, 1, 1, 1, 1])
axes[0].bar(*np.unique(sizes, return_counts=True))
axes[0].set(xlabel="classes in the set", ylabel="rows", title=f"{covered:.0%} of the sets contain the digit")
for ax, row in zip(axes[1:], np.argsort(-sizes)[:5], strict=True):
    ax.imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    ax.set(title=", ".join(map(str, np.flatnonzero(sets[row]))), xticks=[], yticks=[])
    ax.title.set_fontsize(8)
