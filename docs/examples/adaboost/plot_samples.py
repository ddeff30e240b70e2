"""
Boosting by samples
===================

A base classifier that takes no weights can be boosted all the same: each round draws a sample of the rows by their
weights, so that rows that were misclassified come up again and again. The pictures show the samples of ten rows, one of
which no stump gets right.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import AdaBoostClassifier, DecisionStumpClassifier

X, y = np.arange(10.0)[:, None], np.array([1, 1, 0, 1, 1, 0, 0, 0, 0, 0])  # row 2 is not like its neighbours
rng = np.random.default_rng(0)
weights, samples, chances = np.full(10, 0.1), [], []
for _ in range(6):
    sample = np.sort(rng.choice(10, 10, p=weights))
    wrong = DecisionStumpClassifier().fit(X[sample], y[sample]).predict(X) != y
    error = weights[wrong].sum()
    confidence = np.log((1 - error) / error) / 2
    samples.append(sample)
    chances.append(weights)
    weights = weights * np.exp(np.where(wrong, confidence, -confidence))
    weights = weights / weights.sum()

figure, axes = plt.subplots(2, 3, figsize=(11, 5), sharex=True, sharey=True, layout="constrained")
for n, (ax, sample, chance) in enumerate(zip(axes.flat, samples, chances, strict=True), start=1):
    ax.bar(range(10), np.bincount(sample, minlength=10), color=np.where(np.arange(10) == 2, "tab:red", "tab:blue"))
    ax.plot(range(10), 10 * chance, "k_", markersize=12, label="expected")
    ax.set(title=f"round {n}: {', '.join(map(str, sample))}", xticks=range(10))
axes[0, 0].legend()
axes[0, 0].set(ylabel="times drawn")
axes[1, 0].set(ylabel="times drawn", xlabel="row")
axes[1, 1].set(xlabel="row")
axes[1, 2].set(xlabel="row")

# %%
# ``resample=True`` draws such samples. The votes of 50 rounds get row 2 right:
model = AdaBoostClassifier(algorithm="m1", n_estimators=50, resample=True, random_state=0).fit(X, y)
print(model.predict(X), "of", y)
