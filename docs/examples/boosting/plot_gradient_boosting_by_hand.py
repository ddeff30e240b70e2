"""
Gradient boosting, round by round
=================================

Each tree is fitted to the residuals y - F of the trees before it. An estimator created by ``textbook`` does exactly
this, as in Friedman (2001), and twelve lines of NumPy give the same predictions.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import DecisionTreeRegressor, GradientBoostingRegressor

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, 120))[:, None]
y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=120)
rate, rounds = 0.3, [1, 2, 5, 20]

predictions, stages = np.full(120, y.mean()), []
for _ in range(20):
    tree = DecisionTreeRegressor(max_depth=2).fit(x, y - predictions)
    predictions = predictions + rate * tree.predict(x)
    stages.append(predictions)

model = GradientBoostingRegressor.textbook(n_estimators=20, learning_rate=rate, max_depth=2).fit(x, y)
assert np.allclose(model.predict(x), predictions)

figure, axes = plt.subplots(2, 4, figsize=(11, 5), sharex=True, layout="constrained")
for (top, bottom), n in zip(axes.T, rounds, strict=True):
    top.scatter(x, y, s=4, color="0.6")
    top.plot(x, stages[n - 1], color="tab:red")
    top.set(title=f"{n} trees", ylim=(-1.7, 1.7))
    bottom.scatter(x, y - stages[n - 1], s=4, color="tab:blue")
    bottom.set(ylim=(-1.7, 1.7))
axes[0, 0].set(ylabel="y and the sum of trees")
axes[1, 0].set(ylabel="residuals")

# %%
# In classification, the sum starts with the log odds and the residuals are y - p. The value of a leaf is the sum of its
# residuals divided by the sum of p (1 - p):
from fastens import GradientBoostingClassifier

label = (rng.random(120) < 1 / (1 + np.exp(-4 * y))).astype(int)
raw = np.full(120, np.log(label.mean() / (1 - label.mean())))
for _ in range(20):
    p = 1 / (1 + np.exp(-raw))
    leaf = DecisionTreeRegressor(max_depth=2).fit(x, label - p).apply(x)
    raw = raw + rate * (np.bincount(leaf, label - p) / np.maximum(np.bincount(leaf, p * (1 - p)), 1e-300))[leaf]

classifier = GradientBoostingClassifier.textbook(n_estimators=20, learning_rate=rate, max_depth=2).fit(x, label)
assert np.allclose(classifier.decision_function(x), raw)

plt.figure(figsize=(8, 3), layout="constrained")
plt.scatter(x, label, s=6, color="0.6")
plt.step(x, 1 / (1 + np.exp(-raw)), color="tab:red", where="mid")
plt.ylabel("probability")
plt.show()
