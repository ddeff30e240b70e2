"""
Categorical columns without encoding
====================================

A split on a categorical column sends any set of its categories to the left child. If the same column is encoded by
integers in alphabetical order, separating the categories takes many splits.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fastens import GradientBoostingRegressor

rng = np.random.default_rng(0)
towns = np.array([f"town {k:02d}" for k in range(40)])
level = rng.permutation(np.repeat([0.0, 3.0], 20))
rows = rng.integers(0, 40, 4000)
y = level[rows] + rng.normal(size=4000)

as_category = pd.DataFrame({"town": pd.Categorical(towns[rows], categories=towns)})
as_number = pd.DataFrame({"town": rows})
rounds = np.arange(1, 31)
for name, X in {"category": as_category, "number": as_number}.items():
    model = GradientBoostingRegressor(n_estimators=30, max_leaf_nodes=4).fit(X[:2000], y[:2000])
    losses = [np.mean((y[2000:] - p) ** 2) for p in model.staged_predict(X[2000:])]
    plt.plot(rounds, losses, label=f"as a {name}")
plt.axhline(1, color="k", linestyle="--", label="noise variance")
plt.xlabel("rounds")
plt.ylabel("squared error on test rows")
plt.legend()
plt.show()
