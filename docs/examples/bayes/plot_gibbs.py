"""
Gibbs and Bayes-optimal classifiers
===================================

The Gibbs classifier draws one hypothesis from the posterior, and the Bayes-optimal classifier takes the vote of all
hypotheses. If concepts are drawn from the prior, the expected error of the Gibbs classifier is at most twice the error
of the Bayes-optimal classifier (Haussler, Kearns & Schapire 1994). Here the concepts are drawn from all conjunctions on
four attributes with three values.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
instances = np.array(list(itertools.product(range(3), repeat=4)))
concepts = np.array(list(itertools.product([-1, 0, 1, 2], repeat=4)))  # -1: any value
table = np.all((concepts[:, None] == -1) | (concepts[:, None] == instances[None]), axis=2)  # concept x instance

sizes, trials = np.arange(0, 16), 400
errors = np.zeros((3, len(sizes)))
for truth in rng.integers(0, len(concepts), trials):
    order = rng.permutation(len(instances))
    for column, n in enumerate(sizes):
        seen = order[:n]
        alive = table[(table[:, seen] == table[truth, seen]).all(axis=1)]
        share = alive.mean(axis=0)  # P(yes) of every instance; all consistent concepts are equally probable
        wrong_bayes = (share > 0.5) != table[truth]
        wrong_gibbs = np.where(table[truth], 1 - share, share)  # expected over the draw
        wrong_map = alive[0] != table[truth]
        errors[:, column] += [wrong_bayes.mean(), wrong_gibbs.mean(), wrong_map.mean()]
errors /= trials

for name, line in zip(["Bayes-optimal", "Gibbs", "one consistent hypothesis"], errors, strict=True):
    plt.plot(sizes, line, marker="o", markersize=3, label=name)
plt.plot(sizes, 2 * errors[0], "k--", label="twice Bayes-optimal")
plt.xlabel("training examples")
plt.ylabel("expected error")
plt.legend()
plt.show()

# %%
# ``VersionSpaceClassifier`` makes the same predictions without enumerating all concepts, and ``GibbsClassifier`` draws
# from the posterior of any set of models.
from fastens import VersionSpaceClassifier

model = VersionSpaceClassifier().fit(instances[:10], np.where(table[100, :10], "yes", "no"))
alive = table[(table[:, :10] == table[100, :10]).all(axis=1)]
assert np.allclose(model.predict_proba(instances)[:, -1], alive.mean(axis=0))
