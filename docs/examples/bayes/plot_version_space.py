"""
A version space, example by example
===================================

The version space contains all conjunctions that are consistent with the examples so far, between the most general ones
(G, at the top) and the most specific one (S, at the bottom). A positive example generalises S, and a negative example
specialises G, until they meet.
"""

import matplotlib.pyplot as plt

from fastens import VersionSpaceClassifier

examples = [
    (["sunny", "warm", "normal", "strong", "warm", "same"], "yes"),
    (["sunny", "warm", "high", "strong", "warm", "same"], "yes"),
    (["rainy", "cold", "high", "strong", "warm", "change"], "no"),
    (["sunny", "warm", "high", "strong", "cool", "change"], "yes"),
]
model = VersionSpaceClassifier()
figure, axes = plt.subplots(len(examples), 1, figsize=(13, 18), layout="constrained")
for ax, (instance, label) in zip(axes, examples, strict=True):
    model.partial_fit([instance], [label], classes=["no", "yes"])
    model.plot_lattice(ax=ax)
    ax.set_title(f"{label}: {', '.join(instance)} - {model.n_hypotheses_} hypotheses")

# %%
# All consistent hypotheses have the same posterior probability, the inverse of their number. The best instance to query
# next is the one that divides them most evenly.
print(model.posterior_)
print(model.best_question())
