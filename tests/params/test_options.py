"""Records of options: in searches, clones, files, errors and texts, and beside the short forms."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastens
from fastens import (
    AFTLoss,
    Categories,
    Dart,
    EarlyStopping,
    Goss,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
    Growth,
    HuberLoss,
    LambdaRankLoss,
    LinearLeaves,
    Mvs,
    RandomForestClassifier,
    RandomForestRegressor,
    TweedieLoss,
)
from fastens.modelfile.storage import ModelFileError
from fastens.params.options import SHORT_FORMS, Options

RECORDS = list(Options.kinds.values())
CLASSES = [GradientBoostingClassifier, GradientBoostingRegressor, GradientBoostingRanker, GradientBoostingSurvival]
X = np.random.default_rng(0).normal(size=(150, 4))
Y = X[:, 0] + np.abs(X[:, 1])
# One of each, none of it the default.
FULL = {
    "loss": HuberLoss(0.7),
    "boosting": Dart(rate_drop=0.3, skip_drop=0.2, max_drop=5, normalize="forest"),
    "sampling": Goss(top_rate=0.3, other_rate=0.3),
    "growth": Growth(min_child_weight=0.5, max_delta_step=2.0),
    "categories": Categories(encoding="partition", smoothing=1.0),
    "early_stopping": EarlyStopping(refit=True),
    "eval_metric": ["r2", "loss"],
}


@pytest.mark.parametrize("kind", CLASSES)
def test_constructors_have_few_parameters_and_a_real_signature(kind):
    parameters = inspect.signature(kind).parameters
    assert len(parameters) <= 35
    assert parameters["learning_rate"].default == 0.1
    assert parameters["learning_rate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert kind().get_params(deep=False) == {name: each.default for name, each in parameters.items()}
    first = next(iter(parameters))
    assert first == "loss"
    assert parameters[first].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("kind", RECORDS)
def test_records_by_value(kind):
    record = kind()
    assert record == kind() == copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == clone(record)
    assert hash(record) == hash(kind())
    assert repr(record) == f"{kind.__name__}()"
    assert record.get_params() == {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    with pytest.raises(AttributeError):
        setattr(record, next(iter(record.get_params())), 1)
    record.check("where")  # defaults break no rule
    assert "Examples" in kind.__doc__
    assert all(f"{name} : " in kind.__doc__ for name in record.get_params())


def test_parameters_of_records_match_the_model():
    model = GradientBoostingRegressor(**FULL)
    found = model.get_params()
    assert found["boosting__rate_drop"] == 0.3
    assert found["loss__alpha"] == 0.7
    assert "boosting__rate_drop" not in model.get_params(deep=False)
    model.set_params(boosting__rate_drop=0.4, growth__min_child_weight=0.25)
    assert model.boosting == Dart(rate_drop=0.4, skip_drop=0.2, max_drop=5, normalize="forest")
    assert model.growth == Growth(min_child_weight=0.25, max_delta_step=2.0)
    assert FULL["boosting"].rate_drop == 0.3  # records do not change: other models may share them


def test_short_forms_become_records_where_options_are_set():
    model = GradientBoostingRegressor("tweedie", boosting="dart", sampling="mvs", linear_leaves=True)
    model.set_params(
        loss__variance_power=1.2, boosting__max_drop=3, sampling__regularization=0.5, linear_leaves__l2=2.0,
        categories__smoothing=0.0, early_stopping__refit=True,
    )  # fmt: skip
    assert model.loss == TweedieLoss(1.2)
    assert model.boosting == Dart(max_drop=3)
    assert model.sampling == Mvs(0.5)
    assert model.linear_leaves == LinearLeaves(2.0)
    assert model.categories == Categories(smoothing=0.0)
    assert model.early_stopping == EarlyStopping(refit=True)
    assert model.set_params(sampling="goss", sampling__top_rate=0.3).sampling == Goss(0.3)


@pytest.mark.parametrize(
    ("parameter", "short", "record"),
    [(name, short, record) for name, forms in SHORT_FORMS.items() for short, record in forms.items()],
    ids=str,
)
def test_a_short_form_is_its_record(parameter, short, record):
    kind, y, options = GradientBoostingRegressor, Y - Y.min(), {"n_estimators": 4, "random_state": 0}
    if short in ("lambdarank", "map", "pairwise"):
        kind, y = GradientBoostingRanker, (Y > 0.5).astype(int)
    if short == "aft":
        kind, y = GradientBoostingSurvival, Y - Y.min() + 0.1
    if parameter == "averaging":
        kind, y = (RandomForestClassifier, Y > 0.5) if short == "auto" else (RandomForestRegressor, y)
    options |= {"subsample": 0.5} if short == "mvs" else {}
    if parameter == "early_stopping" and short == "auto":  # without rows to validate on it is not the same
        options |= {"X_val": X[100:], "y_val": y[100:]}
    rows = {name: options.pop(name) for name in ("X_val", "y_val") if name in options}
    rows |= {"group": [len(X)]} if kind is GradientBoostingRanker else {}
    one, other = (kind(**options, **{parameter: given}).fit(X, y, **rows) for given in (short, record))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_searches_reach_into_records():
    pipeline = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5, boosting=Dart(max_drop=4)))
    name = "gradientboostingregressor__"
    grid = {f"{name}boosting__rate_drop": [0.0, 1.0], f"{name}growth__min_child_weight": [0.1, 1e6]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_[f"{name}growth__min_child_weight"] == 0.1
    found = search.best_estimator_[-1]
    assert found.growth.min_child_weight == 0.1
    assert found.boosting.max_drop == 4
    whole = GridSearchCV(GradientBoostingRegressor(n_estimators=3), {"boosting": ["gbdt", Dart(0.5)]}, cv=2).fit(X, Y)
    assert len(whole.cv_results_["params"]) == 2


def test_clones_texts_and_files(tmp_path):
    model = GradientBoostingRegressor(n_estimators=6, random_state=0, **FULL)
    assert clone(model).get_params(deep=False) == model.get_params(deep=False)
    assert "boosting=Dart(rate_drop=0.3, skip_drop=0.2, max_drop=5," in repr(model).replace("\n", " ")
    assert "HuberLoss(alpha=0.7)" in model._repr_html_()
    model.fit(X, Y).save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    assert loaded.get_params(deep=False) == model.get_params(deep=False)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_file_leaves_out_what_only_fitting_needs(tmp_path):
    def error(y, predicted):
        return np.abs(y - predicted).mean()

    stopping = EarlyStopping(validation=TimeSeriesSplit(3), refit=True)
    model = GradientBoostingRegressor(n_estimators=4, early_stopping=stopping, eval_metric=["r2", error]).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    assert (loaded.early_stopping, loaded.eval_metric) == (EarlyStopping(refit=True), "loss")


def test_a_file_with_a_record_that_there_is_not(tmp_path):
    model = GradientBoostingRegressor(n_estimators=2, boosting=Dart()).fit(X, Y)
    arrays, meta = model._to_state()
    assert json.loads(json.dumps(meta["parameters"]["boosting"]))["options"] == "Dart"
    meta["parameters"]["boosting"]["options"] = "Trap"
    with pytest.raises(ModelFileError, match="which this version of fastens does not support"):
        GradientBoostingRegressor._from_state(arrays, meta)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"boosting__rate": 0.1}, "Dart has no option 'rate'. It has rate_drop, skip_drop, max_drop, normalize"),
        ({"sampling__top_rate": 0.1}, "sampling must be a record to set sampling__top_rate; got 'uniform'"),
        ({"linear_leaves__l2": 0.1}, "linear_leaves must be a record to set linear_leaves__l2; got False"),
        ({"no_such__thing": 0.1}, "Invalid parameter 'no_such'"),
    ],
)
def test_wrong_names(given, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(boosting="dart").set_params(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"boosting": Dart(rate_drop=2)}, r"boosting\.rate_drop must be a number at least 0 and at most 1; got 2\."),
        ({"boosting": Goss()}, r"boosting must be 'gbdt' or 'dart' or Dart; got Goss\(\)"),
        ({"growth": "fast"}, "growth must be None or Growth; got 'fast'"),
        (
            {"sampling": Goss(0.7, 0.7)},
            r"sampling\.top_rate \+ sampling\.other_rate must be at most 1; got 0\.7 \+ 0\.7",
        ),
        ({"sampling": Mvs()}, "subsample must be below 1 with sampling='mvs'"),
        ({"eval_metric": "nonsense"}, r"eval_metric must be"),
        ({"loss": LambdaRankLoss()}, "loss must be"),
        ({"loss": AFTLoss()}, "loss must be"),
    ],
)
def test_wrong_values(given, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**given).fit(X, Y)


@pytest.mark.parametrize("kind", [GradientBoostingRanker, GradientBoostingSurvival])
def test_splits_of_residuals_are_not_for_all(kind):
    with pytest.raises(ValueError, match=rf"growth\.split_criterion must be 'newton' with a {kind.__name__}"):
        kind(growth=Growth(split_criterion="squared_error")).fit(X, (Y > 0).astype(int) + 1)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("rate_drop", "boosting=Dart(rate_drop=...)"),
        ("linear_lambda", "linear_leaves=LinearLeaves(l2=...)"),
        ("cat_smooth", "categories=Categories(smoothing=...)"),
        ("min_child_weight", "growth=Growth(min_child_weight=...)"),
        ("checkpoint_path", "callbacks=[Checkpoint(path, every=...)]"),
        ("tweedie_variance_power", "loss=TweedieLoss(variance_power=...)"),
    ],
)
def test_names_that_moved_say_where(name, place):
    with pytest.raises(TypeError) as raised:
        GradientBoostingRegressor(**{name: 1})
    assert str(raised.value).endswith(f"Use {place}, a parameter of the constructor.")
    with pytest.raises(ValueError, match="Invalid parameter"):
        GradientBoostingRegressor().set_params(**{name: 1})
