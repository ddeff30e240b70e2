"""What other libraries call attributes and methods of models, for hints in errors."""

from __future__ import annotations

# What is there in its place, and an attribute of the class that has it; of several, the first that the class has.
_INSTEAD: dict[str, tuple[tuple[str, str], ...]] = {
    "evals_result evals_result_ get_evals_result": (("validation_scores_", "linear_leaves"),),
    "best_score best_score_ get_best_score": (("validation_score_[best_iteration_ - 1]", "linear_leaves"),),
    "best_iteration best_ntree_limit get_best_iteration": (("best_iteration_", "linear_leaves"),),
    "num_trees tree_count_ num_boosted_rounds get_num_boosting_rounds n_trees_": (
        ("n_estimators_", "linear_leaves"),
        ("n_estimators", "n_estimators"),
    ),
    "booster_ get_booster": (("the estimator itself, which is the model", "to_dataframe"),),
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
    "get_xgb_params get_all_params": (("get_params()", "get_params"),),
    "grid_search randomized_search": (("scikit-learn's searches, or fastens.tune", "fit"),),
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
    """Return a hint for an attribute that a class has not, a sentence with a space before it; or an empty string.

    Parameters
    ----------
    name : str
        The name, known elsewhere.
    kind : type
        The class of the estimator.

    Examples
    --------
    >>> from fastens import RandomForestRegressor
    >>> from fastens.foreign_attributes import hint_to_attribute
    >>> hint_to_attribute("shap_values", RandomForestRegressor)
    ' Use predict_contributions(X) or explain(X).'
    """
    ours = [instead for instead, held in INSTEAD.get(name, ()) if hasattr(kind, held)]
    return f" Use {ours[0]}." if ours and not hasattr(kind, name) else ""
