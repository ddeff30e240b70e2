"""
Maximum likelihood and Laplace smoothing
========================================

Among N candies, c are cherry. The likelihood of a share of cherry candies, share^c (1 - share)^(N - c), has its maximum
at c / N. The candies have red or green wrappers, with probabilities that depend on the flavour, and each parameter of
the network is estimated separately. If no cherry candy has been observed, maximum likelihood assigns probability zero
to cherry; Laplace smoothing avoids this.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fastens import BayesianNetwork

share = np.linspace(0.001, 0.999, 500)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
for c, n in ((0, 5), (3, 10), (30, 100)):
    log_likelihood = c * np.log(share) + (n - c) * np.log(1 - share)
    left.plot(share, np.exp(log_likelihood - log_likelihood.max()), label=f"{c} of {n}")
    left.axvline((c + 1) / (n + 2), color=left.lines[-1].get_color(), linestyle=":")
left.set(xlabel="share of cherries", ylabel="likelihood over its maximum", title="dotted: with Laplace smoothing")
left.legend()

counts = {("cherry", "red"): 36, ("cherry", "green"): 12, ("lime", "red"): 8, ("lime", "green"): 24}
candies = pd.DataFrame([kind for kind, times in counts.items() for _ in range(times)], columns=["flavour", "wrapper"])
network = BayesianNetwork({"wrapper": "flavour"}, smoothing="none").fit(candies)
network.plot(ax=right, tables=True)
right.set_title("48 of 80 are cherry; 36 of these and 8 of the limes have red wrappers")

# %%
# After five lime candies:
limes = pd.DataFrame({"flavour": ["lime"] * 5})
for smoothing in ("none", "laplace"):
    flavours = BayesianNetwork({}, states={"flavour": ["cherry", "lime"]}, smoothing=smoothing).fit(limes)
    print(smoothing, flavours.query("flavour"))
