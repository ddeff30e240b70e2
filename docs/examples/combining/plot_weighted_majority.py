"""
The weighted majority algorithm
===============================

Experts vote on one row after the other. Each mistake lowers the weights of the experts that made it, so the vote soon
follows the better experts (Littlestone & Warmuth 1994). From row 1000 on, the labels follow another rule. The weights
adapt with a delay, because an expert first has to make up for its earlier mistakes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from fastens import DecisionTreeClassifier, GaussianNB, WeightedMajorityClassifier

X, y = make_classification(2600, n_features=6, n_informative=4, flip_y=0.05, random_state=0)
y[1600:] = np.where(X[1600:, 0] > 0, y[1600:], 1 - y[1600:])  # from here on, the labels follow another rule
experts = {
    "tree, trained before the change": DecisionTreeClassifier(max_depth=5).fit(X[:600], y[:600]),
    "naive Bayes, trained before the change": GaussianNB().fit(X[:600], y[:600]),
    "stump, trained before the change": DecisionTreeClassifier(max_depth=1).fit(X[:600], y[:600]),
    "tree, trained after the change": DecisionTreeClassifier(max_depth=5).fit(X[1600:2000], y[1600:2000]),
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
# For any sequence of rows, the mistakes of the best expert bound the mistakes of the vote:
print(model.n_mistakes_, "of at most", round(model.mistake_bound()))
