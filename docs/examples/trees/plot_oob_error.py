"""
Out-of-bag error
================

A bootstrap sample of n rows leaves out each row with probability (1 - 1/n)^n, about 0.368. The rows on which a tree was
not fitted estimate its error without a separate validation set. The curves compare the out-of-bag error after each tree
with the error on test rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastens import RandomForestClassifier
from fastens.inspection.diversity import oob_share, plot_oob_share

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
forest = RandomForestClassifier(n_estimators=200, oob_score=True, random_state=0).fit(X, y)
votes = np.cumsum([tree.predict_proba(X_test) for tree in forest.estimators_], axis=0)
test = (forest.classes_[votes.argmax(axis=2)] != y_test).mean(axis=1)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(np.arange(1, 201), forest.oob_error_curve_, label="out of bag")
left.plot(np.arange(1, 201), test, label="test rows")
left.set(xlabel="trees", ylabel="error rate", ylim=(0, 0.3))
left.legend()
plot_oob_share(200, ax=right)

# %%
# The expected share of rows out of bag, for samples of ten rows and of a million rows (nearly 1/e):
print(round(oob_share(10), 4), round(oob_share(1_000_000), 4))
