"""scikit-learn's own checks for trees and forests, with no expected failure, for what changes their behaviour too."""

from __future__ import annotations

from fastens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from reference.sklearn_checks import parametrize_with_checks

ESTIMATORS = [
    DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=8, class_weight="balanced", max_features="log2"),
    DecisionTreeRegressor(splitter="random", min_weight_fraction_leaf=0.01, max_bins=16),
    RandomForestClassifier(10, voting="hard", bootstrap="balanced", max_features_per_tree=0.7),
    RandomForestClassifier(10, oob_score=True, class_weight="balanced_subsample", bootstrap="stratified"),
    RandomForestRegressor(10, max_samples=0.7, oob_score=True, max_features="sqrt", criterion="absolute_error"),
    ExtraTreesClassifier(10, bootstrap=True, class_weight="balanced"),
    ExtraTreesRegressor(10, criterion="poisson"),
    DecisionTreeRegressor(interaction_cst="pairwise", max_features=0.5),
    RandomForestClassifier(10, interaction_cst="no_interactions"),
]


def has_wrong_targets(estimator, check):
    """This one has negative targets whatever the tags say."""
    return check == "check_regressor_multioutput" and getattr(estimator, "criterion", None) == "poisson"


@parametrize_with_checks(ESTIMATORS, leave_out=has_wrong_targets)
def test_sklearn_check(check):
    check()
