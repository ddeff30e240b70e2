"""scikit-learn's own checks of bagging, with no expected failure."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression, Ridge

from fastens import BaggingClassifier, BaggingRegressor, DecisionTreeClassifier
from reference.sklearn_checks import parametrize_with_checks


@parametrize_with_checks(
    [
        BaggingClassifier(DecisionTreeClassifier(splitter="random"), max_features=0.7, voting="hard"),
        # Means of margins and of probabilities put rows in the same order by luck of the bags.
        BaggingClassifier(LogisticRegression(), 3, random_state=0),
        BaggingClassifier(LogisticRegression(), 3, voting="hard", max_samples=0.8, bootstrap=False),
        BaggingRegressor(Ridge(), 5, max_features=0.9, sampling="rows"),
        BaggingRegressor(Ridge(), 5, bootstrap_features=True),
    ]
)
def test_sklearn_check(check):
    check()
