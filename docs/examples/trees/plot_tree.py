"""
A tree, drawn
=============

One tree of three levels on the flowers of iris: every box says which rows go left, how many there are and of which
classes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from fastens import DecisionTreeClassifier

X, y = load_iris(return_X_y=True, as_frame=True)
model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, load_iris().target_names[y])

figure, ax = plt.subplots(figsize=(10, 5), layout="constrained")
model.plot_tree(ax=ax)

# %%
# The same tree as text:
print(model.to_text())
