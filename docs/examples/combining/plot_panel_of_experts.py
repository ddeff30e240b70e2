"""
A panel of experts
==================

Three experts err independently with probability 0.3, and the majority decides. The decision is wrong if two or three of
them err: 0.3^3 + 3 x 0.3^2 x 0.7 = 0.216. More experts reduce the error further, unless their errors are correlated.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens.inspection.diversity import majority_error, plot_average_variance, plot_majority_error

assert np.isclose(majority_error(3, 0.3), 0.216)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
plot_majority_error(0.3, ax=left)
plot_average_variance(ax=right)

# %%
# A simulation of a hundred thousand decisions gives the same error:
rng = np.random.default_rng(0)
wrong = rng.random((100_000, 3)) < 0.3
print(np.mean(wrong.sum(axis=1) >= 2))
