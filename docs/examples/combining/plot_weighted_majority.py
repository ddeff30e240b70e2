"""
A majority that learns whom to trust
====================================

Experts vote row by row. Each mistake lowers the weight of those who made it, so that the vote soon follows the better
ones, however they came to be (Littlestone & Warmuth 1994). From row 1000 on the labels follow another rule. Weights
follow late: an expert has to make up for all its mistakes of before.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from fastens import DecisionTreeClassifier, GaussianNB, WeightedMajorityClassifier

X, y = make_classification(2600, n_features=6, n_informative=4, flip_y=0.05, random_state=0)
y[1600:] = np.where(X[1600:, 0] > 0, y[1600:], 1 - y[1600:])  # from here on labels follow another rule
experts = {
    "a tree, of the rows before": DecisionTreeClassifier(max_depth=5).fit(X[:600], y[:600]),
    "naive Bayes, of the rows before": GaussianNB().fit(X[:600], y[:600]),
    "a stump": DecisionTreeClassifier(max_depth=1).fit(X[:600], y[:600]),
    "a tree, of the rows after": DecisionTreeClassifier(max_depth=5).fit(X[1600:2000], y[1600:2000]),
}
model = WeightedMajorityClassifier(list(experts.items()), prefit=True, beta=0.9)

weights, mistakes = [], []
for row in range(600, 2600):
    model.partial_fit(X[row : row + 1], y[row : row + 1], classes=[0, 1])
    weights.append(model.weights_)
    mistakes.append([*model.member_mistakes_, model.n_mistakes_])

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
left.stackplot(range(2000), np.transpose(weights), labels=list(experts))
left.set(xlabel="row", ylabel="weights", xlim=(0, 2000), ylim=(0, 1))
left.legend(loc="lower left", fontsize=8)
for line, name in zip(np.transpose(mistakes), [*experts, "the weighted majority"], strict=True):
    right.plot(line, label=name, linewidth=3 if name == "the weighted majority" else 1)
right.set(xlabel="row", ylabel="mistakes so far")
right.legend(fontsize=8)

# %%
# The mistakes are bounded by those of the best expert, whatever the rows are:
print(model.n_mistakes_, "of at most", round(model.mistake_bound()))
