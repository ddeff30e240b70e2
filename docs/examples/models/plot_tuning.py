"""
Hyperparameter search
=====================

``tune`` first tries boosting, forests and extra trees with their default parameters, and then samples random
configurations from published search spaces. All trials use the same folds. A trial that is worse than most others is
abandoned before its last fold.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from fastens import TuningConfig, tune

X, y = load_diabetes(return_X_y=True)
found = tune(X, y, "regression", time_limit=300, search=TuningConfig(n_trials=12, n_folds=3))

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
kinds = sorted({trial.family for trial in found.trials})
for trial in found.trials:
    ax.plot(
        [trial.index] * len(trial.losses),
        trial.losses,
        marker="o" if trial.is_complete else "x",
        color=f"C{kinds.index(trial.family)}",
    )
for i, kind in enumerate(kinds):
    ax.plot([], [], marker="o", color=f"C{i}", label=kind)
ax.set(xlabel="trial", ylabel="loss of each fold; crosses: abandoned")
ax.legend()

# %%
# The three best models:
for trial in sorted((trial for trial in found.trials if trial.is_complete), key=lambda trial: sum(trial.losses))[:3]:
    print(trial.family, trial.params)
