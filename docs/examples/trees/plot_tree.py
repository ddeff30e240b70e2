"""
Plot a decision tree
====================

A tree of three levels on the iris data. Each box shows the test that sends rows to the left child, the number of rows
and their classes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from fastens import DecisionTreeClassifier

X, y = load_iris(return_X_y=True, as_frame=True)
model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, load_iris().target_names[y])

figure, ax = plt.subplots(figsize=(10, 5), layout="constrained")
model.plot_tree(ax=ax)

# %%
# The tree as text:
print(model.to_text())
