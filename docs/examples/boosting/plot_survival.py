"""
Survival curves
===============

Survival times may be censored: for a patient who is alive at the end of a study, only a lower bound of the survival
time is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fastens import GradientBoostingSurvival

rng = np.random.default_rng(0)
dose = rng.uniform(0, 1, 1500)
died_at = rng.exponential(300 * np.exp(1.5 * dose))
left_at = rng.uniform(100, 900, 1500)
y = pd.DataFrame({"event": died_at <= left_at, "time": np.minimum(died_at, left_at)})

model = GradientBoostingSurvival(n_estimators=60).fit(dose[:, None], y)
days = np.arange(1, 800, 10)
chosen = np.array([[0.1], [0.5], [0.9]])
for label, curve in zip(chosen[:, 0], model.predict_survival_function(chosen, times=days), strict=True):
    line = plt.plot(days, curve, label=f"dose {label}")[0]
    plt.plot(days, np.exp(-days / (300 * np.exp(1.5 * label))), linestyle="--", color=line.get_color())
plt.xlabel("days")
plt.ylabel("survival probability (dashed: true curve)")
plt.legend()
plt.show()
