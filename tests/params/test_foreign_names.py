"""Names of other libraries: every error says which of ours is meant."""

from __future__ import annotations

import inspect
import re

import pytest
from sklearn.base import clone
from sklearn.metrics import get_scorer_names

import fastens
from fastens import (
    AdaBoostClassifier,
    BaggingClassifier,
    BayesianNetwork,
    ConformalClassifier,
    ConformalRegressor,
    DecisionTreeClassifier,
    GaussianNB,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from fastens.params.foreign_names import ABSENT, INSTEAD, METHODS, OURS, SCORERS
from fastens.params.options import Options

X, Y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
ESTIMATORS = [getattr(fastens, name) for name in fastens.__all__ if hasattr(getattr(fastens, name), "set_params")]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("valid_sets", "Use X_val and y_val, parameters of fit."),
        ("eval_metric", "Use eval_metric, a parameter of the constructor."),
        ("early_stopping_rounds", "Use early_stopping and n_iter_no_change, parameters of the constructor."),
        ("callbacks", "Use callbacks, a parameter of the constructor."),
        ("verbose", "Use verbose, a parameter of the constructor."),
        ("categorical_feature", "Use categorical_features, a parameter of the constructor."),
        ("base_margin", "Use init_score, a parameter of fit."),
        ("sample_weight_eval_set", "Use sample_weight_val, a parameter of fit."),
        ("init_model", "Use resume and init_score, parameters of fit; or warm_start, a parameter of the constructor."),
        ("baseline", "Use init_score, a parameter of fit."),
        ("offset", "Use init_score, a parameter of fit."),
        ("exposure", "Use init_score=np.log(exposure), a parameter of fit."),
        ("event_observed", "Pass times and events, or lower and upper bounds, as the columns of y."),
        ("eval_class_weight", "Use sample_weight_val, a parameter of fit."),
        ("missing", "Missing values are NaN, None or the nulls of the table; replace other missing-value codes first."),
        ("xgb_model", "Use resume and init_score, parameters of fit; or warm_start, a parameter of the constructor."),
    ],
)
def test_hints_for_foreign_arguments_of_fit(name, ours):
    with pytest.raises(TypeError) as raised:
        GradientBoostingClassifier().fit(X, Y, **{name: [1]})
    assert str(raised.value) == f"GradientBoostingClassifier.fit() got an unexpected keyword argument {name!r}. {ours}"


@pytest.mark.parametrize(
    ("kind", "name", "ours"),
    [
        (GradientBoostingRegressor, "num_leaves", "max_leaf_nodes"),
        (GradientBoostingRegressor, "reg_lambda", "l2_regularization"),
        (GradientBoostingRegressor, "colsample_bytree", "max_features_per_tree"),
        (GradientBoostingRegressor, "max_iter", "n_estimators"),
        (GradientBoostingRegressor, "n_rounds", "n_estimators"),
        (GradientBoostingRegressor, "min_child_samples", "min_samples_leaf"),
        (GradientBoostingRegressor, "objective", "loss"),
        (GradientBoostingRegressor, "eta", "learning_rate"),
        (GradientBoostingRegressor, "quantile_alpha", "quantile"),
        (GradientBoostingRegressor, "criterion", r"growth=Growth\(split_criterion=\.\.\.\)"),
        (AdaBoostClassifier, "base_estimator", "estimator"),
        (RandomForestClassifier, "subsample", "max_samples"),
        (RandomForestClassifier, "categorical_encoding", r"categories=Categories\(encoding=\.\.\.\)"),
        (RandomForestClassifier, "n_trees", "n_estimators"),
        (RandomForestClassifier, "ntree", "n_estimators"),
        (RandomForestClassifier, "maxnodes", "max_leaf_nodes"),
        (RandomForestClassifier, "sampsize", "max_samples"),
        (GradientBoostingRanker, "seed", "random_state"),
        (RandomForestRegressor, "max_samples_leaf", "keep_leaves"),
        (RandomForestRegressor, "objective", "criterion"),
        (ConformalRegressor, "prefit", "cv='prefit'"),
        (ConformalClassifier, "conformity_score", "conformity"),
        (BayesianNetwork, "equivalent_sample_size", "ess"),
        (GradientBoostingRegressor, "ignored_features", "feature_weights"),
        (GradientBoostingRegressor, "path_smoothing", r"growth=Growth\(path_smooth=\.\.\.\)"),
        (GradientBoostingRegressor, "folds", r"early_stopping=EarlyStopping\(folds=\.\.\.\)"),
        (RandomForestClassifier, "temperature", r"averaging=PosteriorAverage\(temperature=\.\.\.\)"),
    ],
)
def test_hints_for_foreign_constructor_arguments(kind, name, ours):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{name}'\. Use {ours}, a parameter of"):
        kind(**{name: 1})
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}'.*Use {ours}, a parameter of the constructor"):
        kind().set_params(**{name: 1})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("pred_contrib", " Use predict_contributions(X)."),
        ("pred_leaf", " Use apply(X)."),
        ("output_margin", " Use decision_function(X)."),
        ("iteration_range", " Use model[:k], the model of the first k rounds."),
        ("base_margin", " Use init_score."),
        ("init_scores", " Use init_score."),
        ("exposure", " Use init_score=np.log(exposure)."),
        ("nonsense", ""),
    ],
)
def test_hints_for_foreign_arguments_of_predict(name, ours):
    model = GradientBoostingClassifier(n_estimators=1).fit(X, Y)
    with pytest.raises(TypeError) as raised:
        model.predict_proba(X, **{name: [1]})
    method = "GradientBoostingClassifier.predict_proba()"
    assert str(raised.value) == f"{method} got an unexpected keyword argument {name!r}.{ours}"


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (RandomForestClassifier, "eval_set", "This estimator has no early stopping and no validation set."),
        (BaggingClassifier, "early_stopping_rounds", "This estimator has no early stopping and no validation set."),
        (GradientBoostingClassifier, "qid", "Only GradientBoostingRanker uses queries."),
        (GradientBoostingClassifier, "group", "Only GradientBoostingRanker uses queries."),
        (RandomForestClassifier, "base_margin", "Only gradient boosting starts from given scores."),
        (RandomForestClassifier, "exposure", "Only gradient boosting starts from given scores."),
        (RandomForestClassifier, "verbose", "This estimator does not report progress."),
        (AdaBoostClassifier, "callbacks", "Only gradient boosting has callbacks."),
        (BaggingClassifier, "cat_features", "This estimator has no parameter for categorical columns."),
    ],
)
def test_hints_for_parameters_of_other_estimators(kind, name, text):
    with pytest.raises(TypeError) as raised:
        kind().fit(X, Y, **{name: [1]})
    assert str(raised.value) == f"{kind.__name__}.fit() got an unexpected keyword argument {name!r}. {text}"


def test_hints_for_foreign_arguments_of_rankers():
    for name, ours in {"eval_group": "group_val", "eval_qid": "qid_val", "eval_at": "ndcg_at"}.items():
        with pytest.raises(TypeError, match=rf"Use {ours}, a parameter of"):
            GradientBoostingRanker().fit(X, Y, **{name: [1]})


def test_alpha_is_of_quantiles_and_of_huber():
    with pytest.raises(TypeError, match=r"Use quantile and loss=HuberLoss\(alpha=\.\.\.\), parameters of the constr"):
        GradientBoostingRegressor("quantile", alpha=0.9)


def test_parameters_of_parts():
    with pytest.raises(ValueError, match=r"'base_estimator' for.*Use estimator, a parameter of the constructor"):
        AdaBoostClassifier().set_params(base_estimator__max_depth=2)
    with pytest.raises(ValueError, match=r"estimator must be an estimator to set estimator__max_depth; got None"):
        AdaBoostClassifier().set_params(estimator__max_depth=2)
    with pytest.raises(ValueError, match=r"random_state must have parameters to set random_state__depth; got None"):
        AdaBoostClassifier().set_params(random_state__depth=2)
    with pytest.raises(ValueError, match=r"tree must be an estimator to set tree__max_depth; got 'drop'"):
        VotingClassifier([("tree", "drop")]).set_params(tree__max_depth=2)
    tree = DecisionTreeClassifier()
    assert AdaBoostClassifier().set_params(estimator__max_depth=2, estimator=tree).estimator.max_depth == 2
    stack = StackingClassifier([("tree", tree)], final_estimator="linear")
    assert stack.set_params(final_estimator=tree, final_estimator__max_depth=3).final_estimator.max_depth == 3


def test_hints_for_absent_and_misspelt_names():
    with pytest.raises(TypeError, match=r"'reg_alpha'\. Leaf values have no L1 penalty"):
        GradientBoostingClassifier(reg_alpha=1)
    with pytest.raises(TypeError, match=r"'confidence_level'\. Use coverage, a parameter of predict_interval"):
        ConformalRegressor().predict_interval(X, confidence_level=0.9)
    with pytest.raises(TypeError, match=r"'alpha'\. Use coverage, a parameter of predict_interval"):
        ConformalClassifier().predict_set(X, alpha=0.1)
    with pytest.raises(TypeError, match=r"Did you mean n_estimators\?"):
        GradientBoostingClassifier(n_estimator=3)
    with pytest.raises(TypeError, match=r"argument 'nonsense'\.$"):
        GradientBoostingClassifier().fit(X, Y, nonsense=3)


def test_a_callback_that_changes_parameters():
    lightgbm = pytest.importorskip("lightgbm")
    model = GradientBoostingClassifier(callbacks=[lightgbm.reset_parameter(learning_rate=lambda i: 0.1)])
    with pytest.raises(ValueError, match="callbacks must be functions that are called after a round, not before"):
        model.fit(X, Y)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_estimator_keeps_its_signatures(kind):
    parameters = inspect.signature(kind).parameters
    required = {name: [len] for name, each in parameters.items() if each.default is inspect.Parameter.empty}
    model = kind(**required)
    assert sorted(clone(model).get_params(deep=False)) == sorted(parameters)
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.__init__\(\) got an unexpected keyword argument 'nonsens"):
        kind(nonsense=1)
    of_fit = inspect.signature(model.fit).parameters.values()
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in of_fit):  # these pass on what members take
        with pytest.raises(TypeError, match=rf"{kind.__name__}\.fit\(\) got an unexpected keyword argument 'evals'"):
            model.fit(X, evals=[])


def offers(kind, name):
    """Return True if a class has a method or attribute, or its instances a parameter, of this name."""
    return hasattr(kind, name) or name in getattr(kind, "_parameter_rules", ())


def test_every_name_stands_for_something():
    known = {name for kind in ESTIMATORS for name in inspect.signature(kind).parameters}
    known |= {name for kind in ESTIMATORS for name in inspect.signature(kind.fit).parameters}
    known |= set(inspect.signature(fastens.TuningConfig).parameters)
    wanted = {each for ours in OURS.values() for each in ours}
    assert {each.partition("=")[0] for each in wanted} <= known
    options = {name: set(kind().get_params()) for name, kind in Options.kinds.items()}
    for record, option in re.findall(r"=(\w+)\((\w+)=\.\.\.\)", " ".join(wanted)):
        assert option in options[record]
    assert set(OURS) & set(ABSENT) <= {"missing"}  # XGBoost's `missing` means another thing than that of Categories
    assert all(any(offers(kind, method) for kind in ESTIMATORS) for _, method in METHODS.values())


@pytest.mark.parametrize(
    ("kind", "name", "ours"),
    [
        (GradientBoostingClassifier, "validation_score_", ". Use evals_result_."),
        (GradientBoostingClassifier, "estimators_", ". Use to_dataframe() or plot_tree(tree)."),
        (GradientBoostingRegressor, "oob_improvement_", ". Use oob_score=True, a parameter of the constructor."),
        (GradientBoostingRegressor, "shap_values", ". Use predict_contributions(X) or explain(X)."),
        (GradientBoostingClassifier, "partial_fit", ". Use warm_start=True, a parameter of the constructor, and fit."),
        (GradientBoostingSurvival, "unique_times_", ". Use event_times_."),
        (RandomForestRegressor, "proximity_counts", ". Use proximity(X, X_train)."),
        (ConformalRegressor, "conformalize", ". Use fit(X, y), with cv='prefit' and rows that the estimator has not "),
        (BayesianNetwork, "map_query", ". Use most_probable(evidence)."),
        (GaussianNB, "save_model", ". Use save(path)."),
        (GaussianNB, "evals_result_", ""),
        (GaussianNB, "nonsense", ""),
    ],
)
def test_attributes_of_other_libraries(kind, name, ours):
    with pytest.raises(AttributeError) as raised:
        getattr(kind(), name)
    assert str(raised.value).startswith(f"{kind.__name__!r} object has no attribute {name!r}{ours}")
    assert raised.value.name == name


@pytest.mark.parametrize(
    ("model", "ours"),
    [
        (GradientBoostingClassifier("binary:logistic"), "Use 'log_loss'."),
        (GradientBoostingRegressor("RMSE"), "Use 'squared_error'."),
        (GradientBoostingRegressor("binary:logistic"), "got 'binary:logistic'."),
        (GradientBoostingClassifier(boosting="gbtree"), "Use 'gbdt'."),
        (AdaBoostClassifier(algorithm="SAMME.R"), "Use 'real'."),
        (RandomForestRegressor(criterion="mse"), "Use 'squared_error'."),
        (DecisionTreeClassifier(criterion="information_gain"), "Use 'entropy'."),
        (GradientBoostingClassifier(early_stopping=True, eval_metric="AUC"), "Use 'roc_auc'."),
        (GradientBoostingClassifier(early_stopping=True, eval_metric="pr_auc"), "Use 'average_precision'."),
        (GradientBoostingClassifier(early_stopping=True, eval_metric="brier"), "Use 'neg_brier_score'."),
        (
            GradientBoostingRegressor("gamma", early_stopping=True, eval_metric="gamma-deviance"),
            "Use 'neg_mean_gamma_deviance'.",
        ),
        (GradientBoostingSurvival(early_stopping=True, eval_metric="c_index"), "Use 'concordance'."),
    ],
)
def test_values_of_other_libraries(model, ours):
    with pytest.raises(ValueError, match=rf"must be .*{re.escape(ours)}$"):
        model.fit(X, Y)


def test_values_in_place_of_others_exist():
    assert set(SCORERS.values()) <= set(get_scorer_names())
    assert not set(SCORERS) & set(get_scorer_names())


def test_attributes_with_errors_of_their_own_keep_them():
    with pytest.raises(AttributeError, match=r"the network has no class\. Fit it with y, or call posterior for one of"):
        BayesianNetwork([(0, 1)]).fit([[0, 0], [1, 1]]).predict([[0, 0]])


def test_every_attribute_in_place_of_another_exists():
    kinds = [kind for kind in ESTIMATORS if kind.__module__.startswith("fastens.")]
    for theirs, ours in INSTEAD.items():
        for instead, held in ours:
            found = [kind for kind in kinds if offers(kind, held)]
            assert found
            assert not all(hasattr(kind, theirs) for kind in found), theirs
            method = re.match(r"(\w+)\(", instead)
            assert method is None or hasattr(found[0], method[1]), instead
