"""
AdaBoost with resampling
========================

A base classifier that does not accept sample weights can be boosted too. Each round draws a sample of the rows in
proportion to their weights, so that misclassified rows are drawn more often. The charts show samples of ten rows, of
which row 2 has another label than its neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import AdaBoostClassifier, DecisionStumpClassifier

X, y = np.arange(10.0)[:, None], np.array([1, 1, 0, 1, 1, 0, 0, 0, 0, 0])  # row 2 is an exception
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
# ``resample=True`` draws such samples. The vote after 50 rounds classifies row 2 correctly:
model = AdaBoostClassifier(algorithm="m1", n_estimators=50, resample=True, random_state=0).fit(X, y)
print(model.predict(X), "true labels:", y)
