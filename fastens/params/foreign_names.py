"""Parameter and attribute names of other libraries, and the hints that error messages give for them."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

# Names in LightGBM, XGBoost, CatBoost and scikit-learn with the fastens parameters that replace them. Hints name only
# the replacements that the estimator has. Option records add the names of their fields.
_OURS: dict[str, tuple[str, ...]] = {
    (
        "n_rounds num_rounds num_round num_boost_round num_iterations num_iteration n_iter max_iter iterations "
        "num_trees n_trees ntrees ntree"
    ): ("n_estimators", "n_trials"),
    "num_trials max_trials max_evals": ("n_trials",),
    "cv": ("folds", "n_folds"),
    "eta shrinkage shrinkage_rate": ("learning_rate",),
    "num_leaves num_leaf max_leaves max_leaf maxnodes": ("max_leaf_nodes",),
    "depth max_tree_depth": ("max_depth",),
    "min_child_samples min_data_in_leaf min_data min_data_per_leaf min_samples_split min_node_size nodesize": (
        "min_samples_leaf",
    ),
    "reg_lambda lambda lambda_l2 l2_leaf_reg l2": ("l2_regularization",),
    "gamma min_split_loss min_split_gain min_impurity_split min_gain_to_split": ("min_impurity_decrease",),
    "ccp_alpha": ("split_penalty",),
    (
        "subsample bagging_fraction subsample_freq bagging_freq bagging_temperature max_samples sample_fraction "
        "sample_size sampsize"
    ): ("subsample", "max_samples"),
    "replace": ("bootstrap",),
    "feature_contri ignored_features": ("feature_weights",),
    "colsample_bytree feature_fraction rsm colsample": ("max_features_per_tree",),
    "colsample_bynode colsample_bylevel feature_fraction_bynode mtry": ("max_features",),
    "max_bin max_bin_by_feature border_count n_bins nbins min_data_in_bin subsample_for_bin": ("max_bins",),
    "objective loss_function application": ("loss", "algorithm", "criterion"),
    "loss": ("algorithm", "criterion"),
    "scoring_method": ("criterion",),
    "criterion split_evaluator split_criterion score_function splitrule": ("criterion",),
    "boosting_type booster": ("boosting",),
    "data_sample_strategy bootstrap_type sampling_method": ("sampling",),
    "seed random_seed feature_fraction_seed bagging_seed data_random_seed data_seed drop_seed": ("random_state",),
    "nthread nthreads n_threads num_threads num_thread thread_count": ("n_jobs",),
    "monotone_constraints monotonic_constraints": ("monotonic_cst",),
    "interaction_constraints": ("interaction_cst",),
    (
        "scale_pos_weight is_unbalance unbalance auto_class_weights class_weights pos_bagging_fraction "
        "neg_bagging_fraction"
    ): ("class_weight",),
    "early_stopping_rounds early_stopping_round od_wait od_type od_pval": ("early_stopping", "n_iter_no_change"),
    "early_stopping_tolerance early_stopping_min_delta min_delta": ("tol",),
    "use_best_model": ("early_stopping",),
    "metric metrics custom_metric custom_loss feval scoring eval_metrics": ("eval_metric",),
    "checkpoint_path checkpoint_every save_snapshot snapshot_file snapshot_interval snapshot_freq": (
        "callbacks=[Checkpoint(path, every=...)]",
    ),
    "alpha": ("quantile",),
    "quantile_alpha quantile_level": ("quantile",),
    "linear_tree": ("linear_leaves",),
    "categorical_feature cat_features enable_categorical categorical_columns feature_types": ("categorical_features",),
    "base_score init init_model_score base_margin init_scores baseline offset offset_column": ("init_score",),
    "exposure": ("init_score=np.log(exposure)",),
    "base_margin_eval_set eval_init_score": ("init_score_val",),
    "base_estimator base_learner weak_learner": ("estimator",),
    "classifiers regressors clfs": ("estimators",),
    "meta_classifier meta_regressor": ("final_estimator",),
    "use_probas": ("stack_method",),
    "use_features_in_secondary": ("passthrough",),
    "conformity_score": ("conformity", "method"),
    "prefit": ("cv='prefit'",),
    "test_size conformalize_size": ("calibration_fraction",),
    "max_samples_leaf default_quantiles": ("keep_leaves",),
    "ebunch edges": ("structure",),
    "prior_type pseudo_counts": ("smoothing",),
    "equivalent_sample_size": ("ess",),
    "max_indegree": ("max_parents",),
    "tabu_length": ("tabu",),
    "state_names": ("states",),
    "monitor": ("callbacks",),
    "verbosity silent verbose_eval logging_level metric_period": ("verbose",),
    "eval_set eval_sets valid_sets evals eval_X eval_y validation_data": ("X_val", "y_val"),
    "eval_names valid_names": ("eval_set={name: (X, y)}",),
    "nfold n_folds": ("early_stopping=EarlyStopping(folds=...)", "cv"),
    "choose_pruning select_pruning": ("early_stopping=EarlyStopping(select_pruning=...)",),
    "on_trial": ("callback",),
    "state": ("checkpoint",),
    "eval_group": ("group_val",),
    "eval_qid": ("qid_val",),
    "eval_at ndcg_eval_at": ("ndcg_at",),
    "sample_weight_eval_set eval_sample_weight eval_class_weight": ("sample_weight_val",),
    "group_id query": ("qid", "groups"),
    "lambdarank_unbiased lambdarank_bias_norm lambdarank_position_bias_regularization positions": ("position",),
    "init_model xgb_model": ("warm_start", "resume", "init_score"),
    "weight weights weights_col weights_column": ("sample_weight",),
}
OURS = {theirs: ours for names, ours in _OURS.items() for theirs in names.split()}


def add_option(option: str, names: list[str]) -> None:
    """Register an option for hints: other libraries call it `names`; it is shown as "growth=Growth(max_depth=...)"."""
    for name in names:
        OURS[name] = (*OURS.get(name, ()), option)


# Parameters without a counterpart in fastens.
_ABSENT = {
    "reg_alpha lambda_l1 l1_regularization": "Leaf values have no L1 penalty in fastens; use l2_regularization.",
    "num_class n_classes classes_count": "The classes are inferred from y.",
    "grow_policy": "Trees grow leaf-wise (best first), or depth-wise with max_leaf_nodes=None.",
    (
        "tree_method device device_type task_type gpu_id gpu_use_dp devices predictor force_col_wise force_row_wise "
        "use_quantized_grad enable_bundle is_enable_sparse"
    ): "fastens trains on the CPU with one histogram method, which needs no such setting.",
    "deterministic": "Training is always deterministic, for any number of threads.",
    "boost_from_average": "Boosting always starts from the best constant, or from init_score if it is passed to fit.",
    "first_metric_only": "Early stopping always uses the first metric of eval_metric.",
    "leaf_estimation_method leaf_estimation_iterations leaf_estimation_backtracking": (
        "Leaf values always come from one Newton step."
    ),
    "random_strength": (
        "fastens adds no noise to split gains; use max_features and subsample to sample columns and rows."
    ),
    "plot plot_file train_dir allow_writing_files": "fit does not plot or write files.",
    "use_label_encoder": "Labels may be strings, integers or booleans, without encoding.",
    (
        "duration_col event_col durations event events event_observed event_indicator label_lower_bound "
        "label_upper_bound y_lower_bound y_upper_bound"
    ): "Pass times and events, or lower and upper bounds, as the columns of y.",
    "entry entry_col": "fastens does not support left truncation; all rows are at risk from time 0.",
    "ties": "Tied times always use the Breslow approximation.",
    "confidence_level": "Pass the coverage to predict_interval or predict_set.",
    "importance_type": "Call importances(kind) of the fitted model with the kind of importance.",
    "num_parallel_tree": (
        "Boosting grows one tree per raw prediction in each round; use a random forest for parallel trees."
    ),
    "missing nan_mode zero_as_missing use_missing": (
        "Missing values are NaN, None or the nulls of the table; replace other missing-value codes first."
    ),
    "multi_strategy": "With several targets, each tree predicts all of them.",
    "feature_name feature_names": "Feature names come from the columns of the data frame.",
    "reset_parameter learning_rates": (
        "Parameters are fixed during fit; to change them, continue with warm_start=True. learning_rate accepts a "
        "schedule."
    ),
    "monotone_penalty": "Monotonic constraints hold at every depth, without a penalty.",
    "refit_decay_rate decay_rate": "Call refit_leaves(X, y, decay_rate=...) of the fitted model.",
    "fair_c": "fastens has no Fair loss; loss='log_cosh' and HuberLoss(alpha=...) are similar.",
    "tree_learner": "Pass a Dask or Ray table to fit to train on its workers.",
    "client": (
        "fit uses the current distributed.Client; pass fastens.distributed.DaskTable(X, client=...) to choose "
        "another one."
    ),
    "ray_params ray_remote": "Pass fastens.distributed.RayTable(X, n_actors=..., cpus_per_actor=...) to fit.",
    "n_rounds_per_update process_type updater": (
        "Call refit_leaves of the fitted model to update the leaf values of its trees."
    ),
    "calibrate calibration": "Wrap the fitted or unfitted model in scikit-learn's CalibratedClassifierCV.",
}
# Parameters that only some estimators have.
_ELSEWHERE = {
    (
        "eval_set eval_sets valid_sets evals eval_X eval_y X_val y_val eval_metric early_stopping_rounds "
        "early_stopping_round sample_weight_eval_set eval_sample_weight validation_data"
    ): "This estimator has no early stopping and no validation set.",
    "group group_id qid query eval_group eval_qid eval_at ndcg_eval_at": "Only GradientBoostingRanker uses queries.",
    "base_margin init_score init_scores baseline offset exposure": "Only gradient boosting starts from given scores.",
    "verbose verbose_eval verbosity silent logging_level": "This estimator does not report progress.",
    "callbacks callback": "Only gradient boosting has callbacks.",
    (
        "categorical_feature cat_features enable_categorical categorical_columns feature_types categorical_features"
    ): "This estimator has no parameter for categorical columns.",
}
# Arguments of prediction methods in other libraries, and the methods that replace them.
_METHODS = {
    "pred_contrib pred_contribs": ("predict_contributions(X)", "predict_contributions"),
    "pred_interactions": ("predict_contributions(X, interactions=True)", "predict_contributions"),
    "pred_leaf": ("apply(X)", "apply"),
    "prediction_type": ("predict_proba(X) or decision_function(X)", "predict_proba"),
    "quantiles": ("predict_quantiles(X, quantiles)", "predict_quantiles"),
    "confidence_level alpha": ("coverage, a parameter of predict_interval and predict_set", "calibration_fraction"),
    "raw_score output_margin": ("decision_function(X)", "decision_function"),
    "num_iteration start_iteration iteration_range ntree_limit ntree_start ntree_end": (
        "model[:k], the model of the first k rounds",
        "staged_predict",
    ),
}
# Lower-case values of parameters, such as losses and criteria.
_VALUES = {
    "reg:squarederror reg:linear regression rmse mse l2 ls": "squared_error",
    "information_gain infogain": "entropy",
    "reg:absoluteerror regression_l1 mae l1 lad": "absolute_error",
    "reg:quantileerror": "quantile",
    "reg:pseudohubererror": "huber",
    "logcosh": "log_cosh",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
    "reg:tweedie": "tweedie",
    "reg:logistic xentropy": "cross_entropy",
    (
        "binary binary:logistic logistic logloss multi:softmax multi:softprob softmax multiclass deviance crossentropy "
        "binary_crossentropy categorical_crossentropy"
    ): "log_loss",
    "multiclassova multiclass_ova ova ovr multiclassonevsall": "one_vs_rest",
    "rank:ndcg yetirank": "lambdarank",
    "rank:pairwise pairlogit": "pairwise",
    "rank:map": "map",
    "rank_xendcg xe_ndcg_mart": "xendcg",
    "survival:cox coxph": "cox",
    "survival:aft": "aft",
    "gbtree plain": "gbdt",
    "samme": "discrete",
    "samme.r": "real",
}
VALUES = {theirs: ours for names, ours in _VALUES.items() for theirs in names.split()}
# Lower-case names of metrics, and the scikit-learn scorers that replace them.
_SCORERS = {
    "auc": "roc_auc",
    "aucpr pr_auc prauc": "average_precision",
    "brier brier_score brierscore": "neg_brier_score",
    "mcc": "matthews_corrcoef",
    "error merror binary_error multi_error zeroone acc": "accuracy",
    "log_loss logloss mlogloss binary_logloss multi_logloss multiclass": "neg_log_loss",
    "rmse": "neg_root_mean_squared_error",
    "mse l2": "neg_mean_squared_error",
    "mae l1": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
    "rmsle": "neg_root_mean_squared_log_error",
    "poisson poisson_deviance poisson-nloglik": "neg_mean_poisson_deviance",
    "gamma gamma_deviance gamma-deviance": "neg_mean_gamma_deviance",
}
SCORERS = {theirs: ours for names, ours in _SCORERS.items() for theirs in names.split()}
CONCORDANCES = dict.fromkeys(("c_index", "cindex", "concordance_index", "concordance_index_censored"), "concordance")
METHODS = {theirs: ours for names, ours in _METHODS.items() for theirs in names.split()}
ELSEWHERE = {theirs: text for names, text in _ELSEWHERE.items() for theirs in names.split()}
ABSENT = {theirs: text for names, text in _ABSENT.items() for theirs in names.split()}


def hint(name: str, of_fit: Collection[str], of_constructor: Collection[str]) -> str:
    """Return a hint for an unknown argument of a constructor or `fit`: a sentence after a space, or an empty string.

    Parameters
    ----------
    name : str
        Name of the argument, from another library or misspelt.
    of_fit, of_constructor : collections of str
        Names of the parameters of the estimator.

    Examples
    --------
    >>> from fastens.params.foreign_names import hint
    >>> hint("num_leaves", ["X", "y"], ["max_leaf_nodes"])
    ' Use max_leaf_nodes, a parameter of the constructor.'
    """
    if name in ABSENT or (name == "alpha" and "calibration_fraction" in of_constructor):
        return f" {ABSENT.get(name, ABSENT['confidence_level'])}"
    candidates = (name,) if name in of_fit or name in of_constructor else OURS.get(name, ())
    suggestions = []
    for where, parameters in (("fit", of_fit), ("the constructor", of_constructor)):
        ours = [each for each in candidates if each.partition("=")[0] in parameters]
        if ours:
            suggestions.append(f"{' and '.join(ours)}, {'a parameter' if len(ours) == 1 else 'parameters'} of {where}")
    if suggestions:
        return f" Use {'; or '.join(suggestions)}."
    if name in ELSEWHERE:
        return f" {ELSEWHERE[name]}"
    if name in OURS:
        return ""
    close = get_close_matches(name, sorted({*of_fit, *of_constructor}), n=1, cutoff=0.8)
    return f" Did you mean {close[0]}?" if close else ""


def option_hint(name: str, kind: str) -> str:
    """Return a hint for an unknown option of a record: a sentence after a space, or an empty string.

    Parameters
    ----------
    name : str
        Name of the option in another library.
    kind : str
        Name of the class of the record.

    Examples
    --------
    >>> from fastens.params.foreign_names import option_hint
    >>> option_hint("gamma", "Growth")
    ' Use min_gain_to_split.'
    """
    options = [each for ours in OURS.get(name, ()) for each in re.findall(rf"{kind}\((\w+)=", ours)]
    return f" Use {options[0]}." if options else ""


def hint_to_predict(name: str, of_method: Collection[str], methods: Collection[str]) -> str:
    """Return a hint for an unknown argument of a method other than `fit`: a sentence after a space, or an empty string.

    Parameters
    ----------
    name : str
        Name of the argument, from another library or misspelt.
    of_method, methods : collections of str
        Names of the parameters of the method, and of the methods and parameters of the estimator.

    Examples
    --------
    >>> from fastens.params.foreign_names import hint_to_predict
    >>> hint_to_predict("pred_contrib", ["X"], ["predict", "predict_contributions"])
    ' Use predict_contributions(X).'
    """
    instead, method = METHODS.get(name, ("", ""))
    if method in methods:
        return f" Use {instead}."
    ours = [each for each in OURS.get(name, ()) if each.partition("=")[0] in of_method]
    if ours:
        return f" Use {ours[0]}."
    close = get_close_matches(name, sorted(of_method), n=1, cutoff=0.8)
    return f" Did you mean {close[0]}?" if close else ""


# Classes of other libraries, and earlier class names of fastens, with the public names that replace them.
_CLASSES = {
    "XGBClassifier LGBMClassifier CatBoostClassifier HistGradientBoostingClassifier": "GradientBoostingClassifier",
    "XGBRegressor LGBMRegressor CatBoostRegressor HistGradientBoostingRegressor": "GradientBoostingRegressor",
    "XGBRanker LGBMRanker CatBoostRanker": "GradientBoostingRanker",
    "GradientBoostingSurvivalAnalysis": "GradientBoostingSurvival",
    "XGBRFClassifier": "RandomForestClassifier",
    "XGBRFRegressor RandomForestQuantileRegressor": "RandomForestRegressor",
    "DMatrix QuantileDMatrix Dataset Pool": "BinnedTable",
    "Source": "TableSource",
    "Tuned": "TuningResult",
    "RandomSearch": "TuningConfig",
    "MLClassifier": "MaximumLikelihoodClassifier",
    "Booster load_model": "load",
}
CLASSES = {theirs: ours for names, ours in _CLASSES.items() for theirs in names.split()}


def name_hint(name: str, public_names: Collection[str]) -> str:
    """Return a hint for an unknown name of the package: a sentence after a space, or an empty string.

    Parameters
    ----------
    name : str
        Name in another library, or misspelt.
    public_names : collection of str
        Public names of the package.

    Examples
    --------
    >>> from fastens.params.foreign_names import name_hint
    >>> name_hint("XGBRegressor", ["GradientBoostingRegressor"])
    ' Use GradientBoostingRegressor.'
    """
    if CLASSES.get(name) in public_names:
        return f" Use {CLASSES[name]}."
    close = get_close_matches(name, sorted(public_names), n=1, cutoff=0.8)
    return f" Did you mean {close[0]}?" if close else ""


# Replacements for attributes, each with an attribute by which classes that offer it are recognised. The first match
# is used.
_INSTEAD: dict[str, tuple[tuple[str, str], ...]] = {
    "evals_result get_evals_result train_score_ validation_score_ validation_scores_": (
        ("evals_result_", "linear_leaves"),
    ),
    "best_score best_score_ get_best_score": (
        ("evals_result_['validation'][metric][n_estimators_ - 1]", "linear_leaves"),
    ),
    "best_iteration best_iteration_ n_iter_ best_ntree_limit get_best_iteration": (("n_estimators_", "linear_leaves"),),
    "num_trees tree_count_ num_boosted_rounds get_num_boosting_rounds n_trees_": (
        ("n_estimators_", "linear_leaves"),
        ("n_estimators", "n_estimators"),
    ),
    "booster_ get_booster": (("the estimator itself, which has the methods of a booster", "to_dataframe"),),
    "save_model": (("save(path), or export(path, format=...)", "export"), ("save(path)", "save")),
    "load_model": (("fastens.load(path)", "save"),),
    "dump_model get_dump to_json": (("to_dataframe(), to_text() or export(format=...)", "to_dataframe"),),
    "trees_to_dataframe": (("to_dataframe()", "to_dataframe"),),
    "get_score get_fscore feature_importance get_feature_importance": (("importances(kind)", "importances"),),
    "feature_name feature_name_ feature_names feature_names_": (("feature_names_in_", "fit"),),
    "n_features_ num_feature num_features": (("n_features_in_", "fit"),),
    "loss_ objective_ objective": (("loss", "linear_leaves"),),
    "estimators_": (("to_dataframe() or plot_tree(tree)", "linear_leaves"),),
    "oob_improvement_": (("oob_score=True, a parameter of the constructor", "linear_leaves"),),
    "calc_leaf_indexes leaf_index": (("apply(X)", "apply"),),
    "shap_values": (("predict_contributions(X) or explain(X)", "predict_contributions"), ("explain(X)", "explain")),
    "shrink": (("model[:k], the model of the first k rounds", "linear_leaves"),),
    "refit": (("refit_leaves(X, y)", "refit_leaves"),),
    "partial_fit": (("warm_start=True, a parameter of the constructor, and fit", "warm_start"),),
    "eval_metrics": (("staged_score(X, y)", "staged_score"),),
    "calibrate": (
        (
            "conformalize(X, y) for intervals and sets, or scikit-learn's CalibratedClassifierCV for probabilities",
            "conformalize",
        ),
        ("scikit-learn's CalibratedClassifierCV", "predict_proba"),
    ),
    "plain": (("textbook(...)", "textbook"),),
    "predict_spread": (("predict_std(X)", "predict_std"),),
    "plot_contribution": (("plot_contribution_curve(feature)", "plot_contribution_curve"),),
    "get_xgb_params get_all_params": (("get_params()", "get_params"),),
    "grid_search randomized_search": (("fastens.tune or a search of scikit-learn", "fit"),),
    "predict_interval": (
        (
            "predict_member_range(X, share), or ConformalRegressor(estimator) for intervals that cover the target",
            "predict_member_range",
        ),
        ("the conformal estimators: ConformalRegressor, or ConformalClassifier for sets", "score"),
    ),
    "quantile_ranks": (("predict_quantiles(X, quantiles)", "predict_quantiles"),),
    "proximity_counts": (("proximity(X, X_train)", "proximity"),),
    "conformalize": (("fit(X, y), with cv='prefit' and rows that the estimator has not seen", "calibration_fraction"),),
    "fit_conformalize": (("fit(X, y), with cv=5", "calibration_fraction"),),
    "predict_cumulative_hazard_function": (
        ("-np.log(predict_survival_function(X, times))", "predict_survival_function"),
    ),
    "unique_times_": (("event_times_", "predict_survival_function"),),
    "cum_baseline_hazard_ baseline_survival_": (("cumulative_hazard_", "predict_survival_function"),),
    "add_cpds add_node add_nodes_from add_edge add_edges_from check_model": (
        ("BayesianNetwork.from_tables(states, parents, tables)", "most_probable"),
    ),
    "get_cpds cpds": (("tables_", "most_probable"),),
    "nodes": (("node_names_", "most_probable"),),
    "edges": (("edges_", "most_probable"),),
    "get_parents": (("parents_", "most_probable"),),
    "map_query": (("most_probable(evidence)", "most_probable"),),
    "simulate": (("sample(n)", "most_probable"),),
    "predict_probability": (("posterior(variable, X)", "most_probable"),),
    "to_graphviz to_daft": (("plot()", "most_probable"),),
}
INSTEAD = {theirs: ours for names, ours in _INSTEAD.items() for theirs in names.split()}


def hint_to_attribute(name: str, kind: type) -> str:
    """Return a hint for an unknown attribute: a sentence after a space, or an empty string.

    Parameters
    ----------
    name : str
        Name of the attribute in another library.
    kind : type
        Class of the estimator.

    Examples
    --------
    >>> from fastens import RandomForestRegressor
    >>> from fastens.params.foreign_names import hint_to_attribute
    >>> hint_to_attribute("shap_values", RandomForestRegressor)
    ' Use predict_contributions(X) or explain(X).'
    """
    parameters = getattr(kind, "_parameter_rules", ())  # attributes of instances only
    ours = [instead for instead, held in INSTEAD.get(name, ()) if hasattr(kind, held) or held in parameters]
    return f" Use {ours[0]}." if ours and not hasattr(kind, name) else ""
