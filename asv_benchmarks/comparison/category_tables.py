"""The tables with categories on which handlings are compared, and how each library is told of the columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import fastens
from benchmarks.datasets import Table, data_folder
from benchmarks.peer_models import (
    Settings,
    make_catboost_symmetric,
    make_fastens,
    make_histogram_boosting,
    make_lightgbm,
    make_xgboost_lossguide,
)

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Task:
    """What is predicted in a table, and what is left out because it gives the target away."""

    target: str
    is_class: bool = True
    left_out: tuple[str, ...] = ()
    is_category: tuple[str, ...] = ()


DEPARTED = ("dep_time", "dep_delay", "arr_time", "air_time", "hour", "minute")
# The defaults of fastens were chosen on the first group and are reported on the second.
CHOOSING = {
    "ames_housing": Task("Sale_Price", is_class=False),
    "nursery": Task("class"),
    "okc": Task("Class"),
    "titanic": Task("survived"),
    "adult": Task("income", left_out=("split",)),
    "mpls_stops": Task("problem"),
    "car": Task("class"),
    "telco_churn": Task("Churn"),
}
REPORTING = {
    "insteval": Task("y", is_class=False),
    "nycflights13": Task("arr_delay", is_class=False, left_out=DEPARTED),
    "pg15_claims": Task("Numtppd", is_class=False, left_out=("Numtpbi", "Indtppd", "Indtpbi")),
    "kddcup99_10pct": Task("label"),
    "bank_marketing": Task("y"),
    "diamonds": Task("price", is_class=False),
    "california_housing": Task("median_house_value", is_class=False),
    "fremtpl2_freq": Task("ClaimNb", is_class=False),
    "reg_autompg": Task("class", is_class=False),
    "splice": Task("Class"),
    "oml_kropt": Task("target"),
    "soybean": Task("class"),
    "credit_g": Task("class"),
    "esl_marketing": Task("Income", is_class=False),
}

# All others that have categories; those of fewer than 500 rows say little, their test rows being some tens.
FURTHER = {
    "abalone": Task("rings", is_class=False),
    "anneal": Task("class"),
    "audiology": Task("class"),
    "breast_cancer": Task("Class"),
    "cmc": Task("Contraceptive_method_used"),
    "cps1988": Task("wage", is_class=False),
    "credit_a": Task("class"),
    "data_ohlsson": Task("antskad", is_class=False, left_out=("skadkost",)),
    "dermatology": Task("class"),
    "dna_statlog": Task("Class"),
    "electricity": Task("class"),
    "fertility": Task("morekids"),
    "haberman": Task("Survival_status"),
    "heart_c": Task("num"),
    "heart_h": Task("num"),
    "hepatitis": Task("Class"),
    "hillstrom": Task("visit"),
    "hypothyroid": Task("Class"),
    "kr_vs_kp": Task("class"),
    "lymph": Task("class"),
    "metro_traffic": Task("traffic_volume", is_class=False),
    "mlc_churn": Task("churn"),
    "monks1": Task("cls", left_out=("split",)),
    "monks2": Task("cls", left_out=("split",)),
    "monks3": Task("cls", left_out=("split",)),
    "mushroom": Task("class"),
    "primary_tumor": Task("class"),
    "promoters": Task("cls"),
    "sick": Task("Class"),
    "tic_tac_toe": Task("Class"),
    "vote": Task("Class"),
    "vowel": Task("Class", left_out=("Train or Test",)),
    "wine_quality": Task("quality", is_class=False),
    "zoo": Task("type"),
}


def read(name: str, task: Task | None = None, most_rows: int = MAX_ROWS) -> Table:
    """A table of at most so many rows with categories as pandas has them; classes of fewer than 10 rows left out."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    task = task or {**CHOOSING, **REPORTING, **FURTHER}[name]
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna(subset=[task.target])
    if len(frame) > most_rows:
        frame = frame.sample(most_rows, random_state=0).sort_index()
    if task.is_class:
        label = frame[task.target].astype(str)
        frame = frame[label.groupby(label).transform("size") >= 10]
    X = frame.drop(columns=[task.target, *task.left_out]).dropna(axis=1, how="all").reset_index(drop=True)
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column].dtype):
            X[column] = X[column].astype(str).where(X[column].notna(), None).astype("category")
    if not task.is_class:
        return Table(name, X, frame[task.target].to_numpy(dtype=np.float64))
    y, classes = pd.factorize(frame[task.target].astype(str), sort=True)
    return Table(name, X, y.astype(np.int64), len(classes))


def is_category(X: pd.DataFrame) -> list[bool]:
    return [isinstance(dtype, pd.CategoricalDtype) for dtype in X.dtypes]


class Library:
    """One library with its native handling of categories."""

    def __init__(self, name: str, make: Any, **options: Any) -> None:
        self.name, self.make, self.options = name, make, options
        self.kind = name  # the library that it is a variant of

    def fit(self, X: pd.DataFrame, y: np.ndarray, settings: Settings) -> Any:
        """A fitted model."""
        return self.make(settings).set_params(**self.options).fit(self.table(X), y, **self.fit_options(X))

    def predict(self, model: Any, X: pd.DataFrame, settings: Settings) -> np.ndarray:
        """Probabilities of the classes, or the predicted numbers."""
        return model.predict(self.table(X)) if settings.regression else model.predict_proba(self.table(X))

    def fit_predict(self, X: pd.DataFrame, y: np.ndarray, X_test: pd.DataFrame, settings: Settings) -> np.ndarray:
        """What a model of some rows predicts for others."""
        return self.predict(self.fit(X, y, settings), X_test, settings)

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        return X

    def fit_options(self, X: pd.DataFrame) -> dict[str, Any]:
        return {}


class CatBoost(Library):
    """CatBoost takes no missing categories, and is told of the columns in `fit`."""

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        X = X.copy()
        for column, kind in zip(X.columns, is_category(X), strict=True):
            if kind:
                X[column] = X[column].astype(object).fillna("missing").astype(str)
        return X

    def fit_options(self, X: pd.DataFrame) -> dict[str, Any]:
        return {"cat_features": np.flatnonzero(is_category(X)).tolist()}


class HistogramBoosting(Library):
    """HistGradientBoosting takes at most 255 categories: the rest become missing."""

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        X = X.copy()
        for column, kind in zip(X.columns, is_category(X), strict=True):
            if kind and X[column].nunique() > 250:
                common = X[column].value_counts().index[:250]
                X[column] = X[column].cat.set_categories(sorted(common))
        return X


LIBRARIES = [
    Library("fastens", make_fastens),
    Library("LightGBM", make_lightgbm),
    Library("XGBoost", make_xgboost_lossguide),
    HistogramBoosting("HistGradientBoosting", make_histogram_boosting),
    CatBoost("CatBoost", make_catboost_symmetric),
]


def make_forest(settings: Settings) -> Any:
    """A forest of as many trees; a leaf has no fewer rows than that of a forest for numbers usually has."""
    kind = fastens.RandomForestRegressor if settings.regression else fastens.RandomForestClassifier
    return kind(settings.n_trees, min_samples_leaf=5, max_features="sqrt", random_state=0, n_jobs=settings.n_threads)


MAKERS = {"boosting": make_fastens, "forest": make_forest}


def variants(options: dict[str, dict[str, Any]], family: str) -> list[Library]:
    """fastens with other parameters, by name."""
    return [Library(name, MAKERS[family], **chosen) for name, chosen in options.items()]


def settings_for(table: Table, n_threads: int) -> Settings:
    return replace(Settings(), n_threads=n_threads, regression=table.is_regression)
