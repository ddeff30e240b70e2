"""
Margins
=======

The margin of a row is the share of the vote for its class less that for the other. Rounds after the last training
error still push margins up (Schapire et al. 1998), which is why the test error still falls.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from fastens import AdaBoostClassifier

X, y = load_breast_cancer(return_X_y=True)
figure, ax = plt.subplots(layout="constrained")
for rounds in [5, 50, 500]:
    AdaBoostClassifier(n_estimators=rounds).fit(X, y).plot_margins(X, y, ax=ax)
    ax.lines[-1].set_label(f"{rounds} rounds")
ax.legend()
