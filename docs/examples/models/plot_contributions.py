"""
SHAP values of a prediction
===========================

Shapley values distribute a prediction among the columns (Lundberg et al. 2020). They are exact, and fast enough for all
rows of a table.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from fastens import GradientBoostingRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = GradientBoostingRegressor().fit(X, y)

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
model.plot_contributions(X, ax=left)
model.plot_contributions(X, row=0, ax=right)

# %%
# The values add up to the prediction:
found = model.explain(X)
assert np.allclose(found.base_values + found.values.sum(axis=1), model.predict(X))
