"""Write the golden files of one library, of the version that is installed: `python make.py xgboost`.

Each library leaves a folder of small models with `expected.json`: for each file the raw predictions of `rows()` as
hexadecimal floats. Later versions of fastens must read them and predict the same.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def table():
    """A table by formulas, the same everywhere: numbers, some missing, codes of categories, and a target."""
    i = np.arange(120.0)
    X = np.column_stack([np.sin(1.7 * i), 3 * np.cos(0.9 * i) + i / 40, i % 6, np.round(2 * np.sin(0.37 * i), 1)])
    y = X[:, 0] * X[:, 1] + (X[:, 2] % 3) - X[:, 3]
    X[::7, 1] = np.nan
    return X, y


def rows():
    """Rows to predict: some of the table, others with missing values and codes that are not in it."""
    X = table()[0][:24].copy()
    X[1::6, 2], X[2::6, 2], X[3::6, 0] = np.nan, 9.0, np.nan
    return X


def raw_of(found):
    return [float(value).hex() for value in np.asarray(found, dtype=np.float64).ravel()]


def lightgbm_models(lightgbm, folder):
    X, y = table()
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5, "min_data_per_group": 5}
    cases = {
        "numbers": (y, {"objective": "regression"}),
        "classes": (y > 1, {"objective": "binary"}),
        "several": (np.digitize(y, [0, 2]), {"objective": "multiclass", "num_class": 3}),
        "zeros": (y, {"objective": "regression", "zero_as_missing": True}),
        "forest": (y, {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    }
    for name, (target, own) in cases.items():
        data = lightgbm.Dataset(X, target, categorical_feature=[2])
        booster = lightgbm.train({**options, **own}, data, 3)
        booster.save_model(str(folder / f"{name}.txt"))
        yield f"{name}.txt", booster.predict(rows(), raw_score=name != "forest")


def xgboost_models(xgboost, folder):
    X, y = table()
    kinds = ["q", "q", "c", "q"]
    given = {"feature_types": kinds, "enable_categorical": True, "nthread": 1}
    options = {"max_depth": 3, "nthread": 1, "tree_method": "hist"}
    cases = {
        "numbers.json": (y, {"max_cat_to_onehot": 2}),
        "codes.ubj": (y, {"max_cat_to_onehot": 100, "num_parallel_tree": 2, "subsample": 0.7}),
        "classes.json": (y > 1, {"objective": "binary:logistic"}),
        "several.ubj": (np.digitize(y, [0, 2]), {"objective": "multi:softprob", "num_class": 3}),
        "dropped.json": (y, {"booster": "dart", "rate_drop": 0.5}),
    }
    if int(xgboost.__version__[0]) > 1:
        cases["vectors.ubj"] = (np.column_stack([y, -y]), {"multi_strategy": "multi_output_tree"})
    for name, (target, own) in cases.items():
        own_kinds = {"nthread": 1} if name.startswith("vectors") else given
        booster = xgboost.train({**options, **own}, xgboost.DMatrix(X, target, **own_kinds), 3)
        booster.save_model(str(folder / name))
        yield name, booster.predict(xgboost.DMatrix(rows(), **own_kinds), output_margin=True)


def catboost_models(catboost, folder):
    X, y = table()
    options = {"iterations": 3, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    options["border_count"] = 6
    cases = {
        "numbers": (y, {"loss_function": "RMSE"}),
        "leaves": (y, {"loss_function": "RMSE", "grow_policy": "Lossguide"}),
        "several": (np.digitize(y, [0, 2]), {"loss_function": "MultiClass"}),
    }
    for name, (target, own) in cases.items():
        model = catboost.CatBoost({**options, **own}).fit(X, target)
        path = folder / f"{name}.json"
        model.save_model(str(path), format="json")
        path.write_text(json.dumps(json.loads(path.read_text()), separators=(",", ":")))
        yield f"{name}.json", model.predict(rows(), prediction_type="RawFormulaVal")


def fastens_models(fastens, folder):
    X, y = table()
    classes = np.array(["low", "mid", "top"])[np.digitize(y, [0, 2])]
    boosted, grown = {"n_estimators": 3, "max_depth": 3}, {"n_estimators": 3, "max_depth": 3, "random_state": 0}
    models = {
        "numbers": fastens.GradientBoostingRegressor(categorical_features=[2], **boosted).fit(X, y),
        "classes": fastens.GradientBoostingClassifier(**boosted).fit(X, classes),
        "linear": fastens.GradientBoostingRegressor(linear_leaves=True, **boosted).fit(X, y),
        "quantiles": fastens.GradientBoostingRegressor(loss="quantile", quantile=[0.2, 0.8], **boosted).fit(X, y),
        "forest": fastens.RandomForestClassifier(categorical_features=[2], **grown).fit(X, classes),
        "extra-trees": fastens.ExtraTreesRegressor(**grown).fit(X, y),
        "tree": fastens.DecisionTreeClassifier(max_depth=3).fit(X, classes),
        "outliers": fastens.IsolationForest(n_estimators=3, random_state=0).fit(X),
        "adaboost": fastens.AdaBoostClassifier(n_estimators=3, random_state=0).fit(X, classes),
        "imported": fastens.from_model(HERE / "xgboost-2.1.4" / "codes.ubj"),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.fastens")
        yield f"{name}.fastens", model._raw(rows())
    for name in ("numbers", "forest"):
        for kind, ending in (("onnx", "onnx"), ("lightgbm", "txt"), ("xgboost", "json")):
            models[name].export(folder / f"{name}.{ending}", format=kind)
            yield f"{name}.{ending}", models[name]._raw(rows())


def main(library):
    module = import_module(library)
    folder = HERE / f"{library}-{module.__version__}"
    folder.mkdir(exist_ok=True)
    expected = {name: raw_of(found) for name, found in globals()[f"{library}_models"](module, folder)}
    (folder / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
