"""
Dependent columns in naive Bayes
================================

Naive Bayes assumes that the columns are independent given the class. If they are not, it counts the same evidence
several times, and its probabilities are too close to 0 and 1. TAN gives each column one parent; AODE averages models in
which all columns share a parent. Here the number of redundant columns increases from left to right.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from fastens import AODEClassifier, CategoricalNB, TANClassifier

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 4000)
first = np.where(rng.random(4000) < 0.3, 1 - y, y)  # equal to the class in seven of ten rows
other = np.where(rng.random(4000) < 0.35, 1 - y, y)

copies = range(0, 9, 2)
losses = {"CategoricalNB": [], "TANClassifier": [], "AODEClassifier": []}
for n in copies:
    same = [np.where(rng.random(4000) < 0.1, rng.integers(0, 2, 4000), first) for _ in range(n)]
    X = pd.DataFrame(np.column_stack([first, other, *same])).astype("category")
    for model in (CategoricalNB(), TANClassifier(), AODEClassifier()):
        shares = model.fit(X[:2000], y[:2000]).predict_proba(X[2000:])
        losses[type(model).__name__].append(log_loss(y[2000:], shares))

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, values in losses.items():
    ax.plot(copies, values, marker="o", label=name)
ax.set(xlabel="near copies of the first column", ylabel="log loss")
ax.legend()
plt.show()
