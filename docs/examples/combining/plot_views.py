"""
Stacking on subsets of columns, and cascades
============================================

The base estimators of a stack can use different subsets of the columns, called views. In a cascade, each level gets the
columns together with the predictions of all levels before it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from fastens import ExtraTreesClassifier, GaussianNB, GradientBoostingClassifier, StackingClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
views = {part: [name for name in X.columns if part in name] for part in ("mean", "error", "worst")}
print({part: len(names) for part, names in views.items()})

members = [(part, ExtraTreesClassifier(random_state=0)) for part in views]
models = {f"view: {part}": (ExtraTreesClassifier(random_state=0), names) for part, names in views.items()}
models |= {
    "all columns": (ExtraTreesClassifier(random_state=0), list(X.columns)),
    "a stack of the views": (StackingClassifier(members, columns=views), list(X.columns)),
    "a cascade": (
        StackingClassifier(
            levels=[[("bayes", GaussianNB())], [("trees", ExtraTreesClassifier(random_state=0))]],
            final_estimator=GradientBoostingClassifier(),
            passthrough=True,
            inputs_from="all",
        ),
        list(X.columns),
    ),
}
losses = [
    log_loss(y, cross_val_predict(model, X[names], y, cv=3, method="predict_proba")) for model, names in models.values()
]
plt.figure(figsize=(8, 3.5), layout="constrained")
plt.barh(list(models), losses)
plt.gca().invert_yaxis()
plt.xlabel("log loss, three folds")
plt.show()
