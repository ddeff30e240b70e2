"""
Decision boundaries of all model families
=========================================

Twelve models are fitted to the same three tables of two columns. Trees split along the axes, and sums and votes of
trees give smoother boundaries. The boundary of Gaussian naive Bayes is a quadratic curve.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_classification, make_moons

from fastens import (
    AdaBoostClassifier,
    BaggingClassifier,
    BayesTreeClassifier,
    CascadeForestClassifier,
    DecisionStumpClassifier,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    GaussianNB,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    plot_decision_boundary,
)

tables = [
    make_moons(200, noise=0.3, random_state=0),
    make_circles(200, noise=0.2, factor=0.5, random_state=1),
    make_classification(200, n_features=2, n_redundant=0, n_clusters_per_class=1, class_sep=0.7, random_state=4),
]
members = [("boosting", GradientBoostingClassifier()), ("bayes", GaussianNB())]
models = {
    "one stump": DecisionStumpClassifier(),
    "one tree": DecisionTreeClassifier(random_state=0),
    "posterior of a tree": BayesTreeClassifier(random_state=0),
    "bagging": BaggingClassifier(n_estimators=50, random_state=0),
    "random forest": RandomForestClassifier(random_state=0),
    "extra trees": ExtraTreesClassifier(random_state=0),
    "AdaBoost": AdaBoostClassifier(n_estimators=50),
    "gradient boosting": GradientBoostingClassifier(),
    "Gaussian naive Bayes": GaussianNB(),
    "voting": VotingClassifier(members, voting="soft"),
    "stacking": StackingClassifier(members),
    "cascade forest": CascadeForestClassifier(random_state=0),
}

figure, axes = plt.subplots(len(models), len(tables), figsize=(9, 33), layout="constrained")
for row, (name, model) in zip(axes, models.items(), strict=True):
    for ax, (X, y) in zip(row, tables, strict=True):
        plot_decision_boundary(model.fit(X[::2], y[::2]), X[::2], y[::2], ax=ax)
        ax.set(title=f"{name}: {model.score(X[1::2], y[1::2]):.2f}", xlabel="", ylabel="", xticks=[], yticks=[])
        if (legend := ax.get_legend()) is not None:
            legend.remove()

# %%
# The number above each picture is the accuracy on 100 test rows.
best = np.argmax([model.score(*tables[2]) for model in models.values()])
print("best on all rows of the third table:", list(models)[best])
