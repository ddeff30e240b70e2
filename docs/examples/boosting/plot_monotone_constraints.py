"""
Monotone constraints
====================

Where it is known that a prediction can only rise with a column, the model can be made to obey: it follows the noise
less, and nobody has to explain why a larger flat is cheaper.
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
plt.plot(grid, free.predict(grid), label="free")
plt.plot(grid, rising.predict(grid), label="monotonic_cst=[1]")
plt.xlabel("area")
plt.ylabel("price")
plt.legend()
plt.show()
