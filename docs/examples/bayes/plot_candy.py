"""
Bayesian learning: candy from an unknown bag
============================================

Five kinds of bags contain different shares of lime candy and have prior probabilities .1, .2, .4, .2 and .1. We eat ten
candies from one bag, and all of them are lime. The posterior moves to the bag that contains only lime. The predicted
probability that the next candy is lime, averaged over all bags, rises smoothly, whereas the most probable bag becomes
certain too early.
"""

import matplotlib.pyplot as plt
import numpy as np

from fastens import FiniteHypothesisLearner

lime = [0, 0.25, 0.5, 0.75, 1]
names = [f"{share:.0%} lime" for share in lime]
bags = FiniteHypothesisLearner(
    [[1 - share, share] for share in lime], [0.1, 0.2, 0.4, 0.2, 0.1], outcomes=["cherry", "lime"], hypotheses=names
)
bags.fit(["lime"] * 10)

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
bags.plot_posterior(ax=left)
bags.plot_predictions("lime", ax=right)

# %%
# The likelihood of ten lime candies for each bag, from 0 and 0.00000095 to 1:
print(np.exp(bags.log_likelihoods_[-1]))
