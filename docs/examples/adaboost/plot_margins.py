"""
Margins
=======

The margin of a row is the share of votes for its true class minus the share for the other class. Further rounds
increase the margins even after the training error has stopped falling (Schapire et al. 1998), which explains why the
test error still falls.
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
