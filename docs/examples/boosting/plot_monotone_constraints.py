"""
Monotone constraints
====================

If a prediction may only rise with a column, a monotone constraint makes the model respect this knowledge. The model
then follows the noise less, and no larger flat gets a lower price.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import GradientBoostingRegressor

rng = np.random.default_rng(0)
area = rng.uniform(20, 150, 300)
price = 60 * np.log(area) + rng.normal(scale=18, size=300)
grid = np.linspace(20, 150, 400)[:, None]

free = GradientBoostingRegressor().fit(area[:, None], price)
rising = GradientBoostingRegressor(monotonic_cst=[1]).fit(area[:, None], price)
assert (np.diff(rising.predict(grid)) >= 0).all()

plt.scatter(area, price, s=6, color="0.7")
plt.plot(grid, free.predict(grid), label="unconstrained")
plt.plot(grid, rising.predict(grid), label="monotonic_cst=[1]")
plt.xlabel("area")
plt.ylabel("price")
plt.legend()
plt.show()
