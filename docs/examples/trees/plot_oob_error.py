"""
Error out of bag
================

A bootstrap sample of n rows leaves out each row with probability (1 - 1/n)^n, about 0.368. The rows a tree was not
grown on say how good it is, without rows set aside: the curve shows the error out of bag after each tree beside the
error on test rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastens import RandomForestClassifier
from fastens.inspection.theory import oob_share, plot_oob_share

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
forest = RandomForestClassifier(n_estimators=200, oob_score=True, random_state=0).fit(X, y)
votes = np.cumsum([tree.predict_proba(X_test) for tree in forest.estimators_], axis=0)
test = (forest.classes_[votes.argmax(axis=2)] != y_test).mean(axis=1)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(np.arange(1, 201), forest.oob_error_curve_, label="out of bag")
left.plot(np.arange(1, 201), test, label="test rows")
left.set(xlabel="trees", ylabel="share of wrong rows", ylim=(0, 0.3))
left.legend()
plot_oob_share(200, ax=right)

# %%
# Of ten rows a sample leaves out this share on average, and of a million nearly 1/e:
print(round(oob_share(10), 4), round(oob_share(1_000_000), 4))
