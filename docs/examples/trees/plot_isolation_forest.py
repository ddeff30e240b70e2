"""
Anomaly detection with an isolation forest
==========================================

An isolation forest splits at random thresholds. A row far from all others is isolated after few splits, so it gets a
high anomaly score.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import IsolationForest

rng = np.random.default_rng(0)
X = np.r_[rng.normal(scale=0.5, size=(300, 2)), rng.normal(3, 0.3, (100, 2)), rng.uniform(-4, 6, (20, 2))]
model = IsolationForest(n_estimators=200, contamination=0.05, random_state=0).fit(X)

grid = np.stack(np.meshgrid(np.linspace(-5, 7, 200), np.linspace(-5, 7, 200)), axis=-1)
scores = model.score_samples(grid.reshape(-1, 2)).reshape(200, 200)
plt.contourf(grid[..., 0], grid[..., 1], scores, levels=15, cmap="Blues")
strange = model.predict(X) == -1
plt.scatter(*X[~strange].T, s=6, color="0.3", label="inliers")
plt.scatter(*X[strange].T, s=20, color="tab:red", label="the most anomalous 5 %")
plt.legend()
plt.show()
