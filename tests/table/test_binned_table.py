"""Tables binned once: the models are those of the table itself, which is read and binned no more."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import fastens as fe
from fastens.engine.bins import binning as binning_module
from fastens.engine.bins.binning import bundled
from fastens.params.options import Categories, EarlyStopping

RNG = np.random.default_rng(7)
N_ROWS = 800
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N_ROWS).round(2),
        "word": RNG.choice(["low", "high", "middle", None], N_ROWS),
        "count": RNG.integers(0, 400, N_ROWS),
        "copies": RNG.integers(0, 3, N_ROWS),
    }
)
FRAME["price"] = FRAME["size"] + (FRAME["word"] == "low") + 0.002 * FRAME["count"] + RNG.normal(size=N_ROWS)
FRAME["kind"] = np.where(FRAME["price"] > 1.2, "dear", np.where(FRAME["price"] > 0.3, "fair", "cheap"))
X = FRAME[["size", "word", "count"]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of words to predict, and one of numbers."""
    folder = tmp_path_factory.mktemp("tables")
    FRAME.to_parquet(folder / "all.parquet", row_group_size=100)
    for target in ("kind", "price"):
        columns = [*X.columns, target, "copies"]
        source = fe.TableSource(folder / "all.parquet", columns=columns)
        fe.BinnedTable.from_source(source, target, "copies", folder / target)
    return folder


@pytest.fixture
def n_binned(monkeypatch):
    """How often values have been binned."""
    calls, bin_matrix = [], binning_module.bin_matrix
    monkeypatch.setattr(binning_module, "bin_matrix", lambda *args: (calls.append(1), bin_matrix(*args))[1])
    return calls


def assert_same_models(model, other):
    second = other._ensemble.to_arrays()
    for name, array in model._ensemble.to_arrays().items():
        np.testing.assert_array_equal(second[name], array, err_msg=name)


MODELS = [
    (fe.GradientBoostingRegressor, {"subsample": 0.5, "early_stopping": EarlyStopping(refit=True)}),
    (fe.GradientBoostingRegressor, {"loss": "quantile", "quantile": [0.1, 0.9], "boosting": "dart"}),
    (fe.GradientBoostingClassifier, {"n_jobs": 2}),
    (fe.RandomForestClassifier, {"oob_score": True, "n_estimators": 20}),
    (fe.RandomForestRegressor, {}),
    (fe.AdaBoostClassifier, {"max_depth": 2}),
    (fe.AdaBoostClassifier, {}),
    (fe.AdaBoostRegressor, {}),
]


@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_models_match_the_table(kind, options, files, n_binned):
    target = "kind" if "Classifier" in kind.__name__ else "price"
    given = {"n_estimators": 5, "random_state": 0, **options}
    whole = kind(**given).fit(X, FRAME[target], sample_weight=FRAME["copies"])
    table = fe.BinnedTable.open(files / target)
    assert table.shape == ((FRAME["copies"] > 0).sum(), 3)
    n_binned.clear()
    model = kind(**given).fit(table, table.y)
    assert n_binned == []
    assert_same_models(whole, model)
    if kind is fe.AdaBoostRegressor:  # medians over trees
        with pytest.raises(ValueError, match="X must be the table itself"):
            model.predict(table)
        return
    found = model.predict(table)
    assert n_binned == []
    np.testing.assert_array_equal(found, whole.predict(X[FRAME["copies"] > 0]))


def test_members_learn_its_own_targets(files, n_binned):
    table = fe.BinnedTable.open(files / "kind")
    vote = fe.VotingClassifier([("boosting", fe.GradientBoostingClassifier(n_estimators=3))])
    expected = fe.GradientBoostingClassifier(n_estimators=3).fit(table).predict(table)
    np.testing.assert_array_equal(vote.fit(table).predict(table), expected)
    assert n_binned == []


@pytest.fixture(scope="module")
def with_values(tmp_path_factory):
    """Tables that keep their values, by their target and number of bins."""
    folder, made = tmp_path_factory.mktemp("values"), {}

    def table(target, max_bins=255):
        path = folder / f"{target}{max_bins}"
        if path not in made:
            given = FRAME[[*X.columns, target, "copies"]]
            fe.BinnedTable.from_source(given, target, "copies", path, max_bins=max_bins, keep_values=True)
            made[path] = fe.BinnedTable.open(path)
        return made[path]

    return table


BOOSTED = fe.GradientBoostingRegressor(n_estimators=3, random_state=0)
READ_VALUES = [
    (fe.GradientBoostingRegressor, {"linear_leaves": True}),
    (fe.GradientBoostingClassifier, {"categories": Categories(encoding="target")}),
    (fe.GradientBoostingClassifier, {"categories": Categories(encoding="ordered"), "early_stopping": True}),
    (fe.ExtraTreesClassifier, {}),
    (fe.ExtraTreesRegressor, {"bootstrap": True}),
    (fe.DecisionTreeClassifier, {}),
    (fe.DecisionTreeRegressor, {"max_bins": 255}),
    (fe.DecisionTreeRegressor, {"splitter": "random", "max_bins": 255}),
    (fe.RandomForestRegressor, {"averaging": fe.PosteriorAverage()}),
    (fe.AdaBoostRegressor, {"max_depth": 2}),
    (fe.AdaBoostClassifier, {"estimator": fe.DecisionTreeClassifier(max_depth=2, max_bins=255)}),
    (fe.IsolationForest, {"contamination": 0.1}),
    (fe.RandomTreesEmbedding, {}),
    (fe.VotingRegressor, {"estimators": [("a", BOOSTED), ("b", fe.ExtraTreesRegressor(2, random_state=0))]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), READ_VALUES, ids=lambda value: getattr(value, "__name__", ""))
def test_models_that_read_values_match_the_table(kind, options, with_values):
    target = "kind" if "Classifier" in kind.__name__ else "price"
    known = () if "estimators" in options else kind().get_params()
    given = {name: value for name, value in {"n_estimators": 5, "random_state": 0}.items() if name in known} | options
    table = with_values(target, 255 if "estimators" in options else kind(**given).max_bins)
    whole = kind(**given).fit(X, FRAME[target], sample_weight=FRAME["copies"])
    model = kind(**given).fit(table)
    rows = X[FRAME["copies"] > 0]
    for method in ("predict", "predict_proba", "score_samples", "apply", "predict_contributions"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(model, method)(table), getattr(whole, method)(rows))
    if hasattr(model, "_ensemble"):
        assert_same_models(whole, model)


def test_values_of_other_bins_and_of_more_rows(with_values, tmp_path):
    table = with_values("price")
    model = fe.GradientBoostingRegressor(n_estimators=3, max_bins=20).fit(X, FRAME["price"])
    np.testing.assert_array_equal(model.predict(table[[7, 3]]), model.predict(X[FRAME["copies"] > 0].iloc[[7, 3]]))
    single = X[["size", "count"]].astype("float32")
    first = fe.BinnedTable.from_source(single[:300], single["size"][:300], path=tmp_path / "t", keep_values=True)
    assert first.values().dtype == np.float32
    both = first.append(single[300:].astype("float64") / 3, single["size"][300:])
    expected = np.vstack([single[:300], single[300:].astype("float64") / 3])
    np.testing.assert_array_equal(both.values(), expected)
    np.testing.assert_array_equal(fe.BinnedTable.open(tmp_path / "t").values(), expected)
    trees = [fe.ExtraTreesRegressor(n_estimators=2, random_state=0).fit(rows) for rows in (both[::2], both[::2])]
    np.testing.assert_array_equal(trees[0].predict(both), trees[1].predict(expected))


def test_members_of_other_libraries_get_the_values():
    numbers = X[["size", "count"]].to_numpy()
    table = fe.BinnedTable.from_source(numbers, FRAME["price"].to_numpy(), keep_values=True)
    vote = fe.VotingRegressor([("line", LinearRegression())])
    whole = clone(vote).fit(numbers, FRAME["price"]).predict(numbers)
    np.testing.assert_allclose(clone(vote).fit(table).predict(table), whole, rtol=1e-10)
    with pytest.raises(ValueError, match="made with keep_values=True"):
        vote.fit(fe.BinnedTable.from_source(numbers, FRAME["price"].to_numpy()))


def test_given_weights_replace_those_in_the_table(files):
    table = fe.BinnedTable.open(files / "price")
    ones = np.ones(len(table))
    for model in (BOOSTED, fe.VotingRegressor([("a", BOOSTED)])):
        plain = clone(model).fit(table, sample_weight=ones).predict(table)
        weighted = clone(model).fit(table).predict(table)
        assert (weighted != plain).any()
        given = clone(model).fit(table, sample_weight=table.sample_weight)
        np.testing.assert_array_equal(given.predict(table), weighted)


def test_one_hot_columns_are_bundled():
    hot = np.eye(20)[RNG.integers(0, 20, 2000)].repeat(2, axis=1)
    table = fe.BinnedTable.from_source(hot, hot @ np.arange(40.0))
    matrix = table.binning.transform(table)
    assert len(bundled(matrix).bundles.n_codes) == 1
    models = [fe.GradientBoostingRegressor(n_estimators=4).fit(*given) for given in ((hot, table.y), (table,))]
    assert_same_models(*models)


def test_lists_of_rows():
    rows, y = X[["size", "word"]].to_numpy(object), FRAME["price"].to_numpy()
    table = fe.BinnedTable.from_source(rows.tolist(), y).append(list(map(tuple, rows[:9])), y[:9])
    assert_same_models(*(fe.GradientBoostingRegressor(n_estimators=3).fit(each, y) for each in (table[: len(y)], rows)))
    assert len(table) == len(y) + 9
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        fe.BinnedTable.from_source([1.0, 2.0], [1.0, 2.0])


def boosted(kind, **options):
    return kind(n_estimators=3, random_state=0, **options)


SEVERAL_FITS = {
    "stack of classes": lambda X, y: fe.StackingClassifier(
        [("a", boosted(fe.GradientBoostingClassifier)), ("b", boosted(fe.RandomForestClassifier))], cv=3
    ).fit(X, y),
    "stack": lambda X, y: fe.StackingRegressor([("a", BOOSTED), ("b", boosted(fe.RandomForestRegressor))], cv=3).fit(
        X, y == "dear"
    ),
    "vote": lambda X, y: fe.VotingClassifier(
        [("a", boosted(fe.GradientBoostingClassifier)), ("b", boosted(fe.AdaBoostClassifier))], voting="soft"
    ).fit(X, y),
    "folds": lambda X, y: boosted(fe.GradientBoostingClassifier, early_stopping=EarlyStopping(folds=3)).fit(X, y),
    "grid": lambda X, y: GridSearchCV(boosted(fe.GradientBoostingClassifier), {"max_leaf_nodes": [4, 8]}, cv=3).fit(
        X, y
    ),
    "tuned": lambda X, y: fe.tune(X, y, "classification", search=QUICK_SEARCH).best_estimator_,
    "conformal": lambda X, y: fe.ConformalClassifier(boosted(fe.GradientBoostingClassifier), random_state=0).fit(X, y),
}
QUICK_SEARCH = fe.TuningConfig(families=("boosting", "forest"), n_trials=3, n_folds=3)


@pytest.mark.slow
@pytest.mark.parametrize("fits", SEVERAL_FITS)
def test_many_fits_of_a_table_read_and_bin_it_once(fits, n_binned):
    """Where every fold has every value, so that its bins are those of all rows, the models are those of the table."""
    frame = pd.DataFrame(RNG.integers(0, 5, (300, 3)).astype(float), columns=["a", "b", "c"])
    y, read = np.where(frame["a"] + frame["b"] > RNG.integers(0, 9, 300), "dear", "cheap"), []

    def source():
        read.append(1)
        return pa.Table.from_pandas(frame)

    table = fe.BinnedTable.from_source(fe.TableSource(source), y)
    n_read = len(read)
    n_binned.clear()
    model = SEVERAL_FITS[fits](table, y)
    found = model.predict(table)
    assert (len(read), n_binned) == (n_read, [])
    np.testing.assert_array_equal(found, SEVERAL_FITS[fits](frame, y).predict(frame))


def test_folds_and_bags_of_a_table_bin_nothing(files, n_binned):
    table = fe.BinnedTable.open(files / "price", check=False)
    model = fe.GradientBoostingRegressor(n_estimators=4, random_state=0)
    scores = cross_val_score(model, table, table.y, cv=KFold(3))
    rows = np.arange(len(table))
    for score, (train, test) in zip(scores, KFold(3).split(rows), strict=True):
        assert score == clone(model).fit(table[train], table.y[train]).score(table[test], table.y[test])
    bag = fe.BaggingRegressor(model, n_estimators=2).fit(table, table.y)
    assert bag.predict(table).shape == table.y.shape
    assert n_binned == []


def test_rows_that_are_held_out_have_a_part_in_the_bins(files):
    table = fe.BinnedTable.open(files / "kind")
    model = fe.GradientBoostingClassifier(n_estimators=5, early_stopping=True, random_state=0).fit(table, table.y)
    assert len(model.evals_result_["validation"]["loss"]) == 5
    assert model._ensemble.binning is table.binning


def test_rows_are_chosen_as_of_an_array(files):
    table = fe.BinnedTable.open(files / "price")
    mask = np.arange(len(table)) % 3 == 0
    for rows in (mask, np.flatnonzero(mask), slice(None, None, 3), (mask, ...)):
        part = table[rows]
        np.testing.assert_array_equal(part.y, table.y[mask])
        np.testing.assert_array_equal(part[1:4].sample_weight, table.sample_weight[mask][1:4])
    np.testing.assert_array_equal(table[[5, 2]].codes(), table.codes()[:, [5, 2]])


def test_rows_are_appended_with_the_same_bins(files, tmp_path):
    whole = fe.BinnedTable.open(files / "price")
    parts = [FRAME.drop(columns="kind").iloc[rows] for rows in (slice(0, 300), slice(300, None))]
    first = fe.BinnedTable.from_source(parts[0], "price", "copies", tmp_path / "t")
    both = first.append(parts[1], sample_weight="copies")
    assert len(both) == len(whole)
    np.testing.assert_array_equal(both.y, whole.y)
    values = X[FRAME["copies"] > 0]
    encoded = first.encoder.encode(values, first.options.reading, "a test")
    expected = first.binning.transform(encoded)
    again = fe.BinnedTable.open(tmp_path / "t")
    for table in (both, again):
        np.testing.assert_array_equal(table.codes(), expected.columns)
        n_bytes = expected.columns.shape[0]
        np.testing.assert_array_equal(table.records()[:, :n_bytes], expected.records[:, :n_bytes])
    model = fe.GradientBoostingRegressor(n_estimators=3, subsample=0.5, random_state=0)
    assert_same_models(clone(model).fit(both, None), clone(model).fit(again, None))
    names = {path.name for path in (tmp_path / "t").iterdir()}
    assert {"table.json", f"binning-{both.version}.npz", f"columns-{both.version}.npy"} <= names
    assert os.name == "nt" or not [name for name in names if first.version in name]
    with pytest.raises(ValueError, match="append must be called on the whole table"):
        both[:3].append(parts[1])
    with pytest.raises(ValueError, match="sample_weight must be passed if the table has it, and only then"):
        both.append(parts[1], "price")


def test_rows_are_not_appended_to_a_table_that_has_been_replaced(tmp_path):
    part = FRAME.drop(columns="kind")[:50]
    first = fe.BinnedTable.from_source(part, "price", "copies", tmp_path / "t")
    both = first.append(part, sample_weight="copies")
    assert len(both.append(part, sample_weight="copies")) == 3 * len(first)
    for old in (first, both):
        with pytest.raises(ValueError, match="append must be called on the latest version of the table; rows have"):
            old.append(part, sample_weight="copies")
    newest = fe.BinnedTable.open(tmp_path / "t")
    assert len(newest) == 3 * len(first)
    assert len(newest.append(part, sample_weight="copies")) == 4 * len(first)


def test_targets_of_another_kind_are_not_appended():
    y = FRAME["price"].to_numpy()
    times, several = y.astype([("event", bool), ("time", float)]), np.column_stack([y, y])
    for own, others in ((y, y.astype(str)), (FRAME["kind"], y), (times, y), (y, times), (y, several), (several, y)):
        with pytest.raises(ValueError, match="y must hold the same type as the y of the table"):
            fe.BinnedTable.from_source(X, own).append(X, others)


def test_rows_of_weights_are_appended_to_rows_of_weight_1():
    y, weight = FRAME["price"].to_numpy(), FRAME["copies"].to_numpy()
    table = fe.BinnedTable.from_source(X, y, np.ones(len(y))).append(X, y, weight)
    np.testing.assert_array_equal(table.sample_weight, np.r_[np.ones(len(y)), weight[weight > 0]])


def test_targets_among_objects_are_read_as_fit_reads_them():
    weight, words = (np.arange(len(X)) % 3 > 0) + 0, FRAME["kind"].to_numpy(object)
    missing = np.where(weight, words, None)
    assert fe.BinnedTable.from_source(X, missing, weight).y.tolist() == words[weight > 0].tolist()
    assert fe.BinnedTable.from_source(X, weight.astype(object)).y.dtype == weight.dtype
    for wrong in (missing, np.where(weight, words, 3)):
        with pytest.raises(ValueError, match="y must hold only numbers or only strings, without missing values; it"):
            fe.BinnedTable.from_source(X, wrong)


def test_a_row_is_not_a_list_of_rows():
    table = fe.BinnedTable.from_source(X)
    with pytest.raises(ValueError, match="rows must be a list of row indices, a mask or a slice; got 3"):
        table[3]


def test_tables_without_a_folder(n_binned):
    for options in ({}, {"max_memory": "1GB"}):
        table = fe.BinnedTable.from_source(X, FRAME["price"].to_numpy(), **options)
        n_binned.clear()
        model = fe.GradientBoostingRegressor(n_estimators=3).fit(table, table.y)
        assert n_binned == []
        assert_same_models(fe.GradientBoostingRegressor(n_estimators=3).fit(X, FRAME["price"]), model)
    unlabelled = fe.BinnedTable.from_source(X)
    assert unlabelled.y is None
    with pytest.raises(ValueError, match="requires y"):
        fe.GradientBoostingRegressor().fit(unlabelled, None)
    other = fe.GradientBoostingRegressor(n_estimators=3).fit(unlabelled, FRAME["price"])
    assert_same_models(model, other)


def test_codes_of_two_bytes():
    numbers = RNG.normal(size=(2000, 3))
    table = fe.BinnedTable.from_source(numbers, numbers[:, 0], max_bins=1000)
    model = fe.GradientBoostingRegressor(n_estimators=5, max_bins=1000)
    whole = clone(model).fit(numbers, numbers[:, 0])
    assert_same_models(whole, model.fit(table, table.y))
    np.testing.assert_array_equal(model.predict(table), whole.predict(numbers))


def test_fits_that_need_values_refuse_codes(files):
    table = fe.BinnedTable.open(files / "price")
    cases = [
        (fe.GradientBoostingRegressor(max_bins=100), "max_bins must be 255, as in the BinnedTable; got 100"),
        (fe.GradientBoostingRegressor(linear_leaves=True), "keep_values=True, for GradientBoostingRegressor"),
        (fe.GradientBoostingRegressor(categories=Categories(encoding="target")), "X must be the table itself"),
        (fe.ExtraTreesRegressor(n_estimators=2), "X must be the table itself, or a BinnedTable made with keep_values="),
        (fe.DecisionTreeRegressor(max_bins=255), "keep_values=True, for DecisionTreeRegressor"),
        (fe.IsolationForest(), "keep_values=True, for IsolationForest"),
        (fe.BaggingRegressor(BOOSTED, max_features=2), "models that see some of its columns"),
        (fe.StackingRegressor([("a", BOOSTED)], passthrough=True), "models that see columns beside those of X"),
        (
            fe.GradientBoostingRegressor(categorical_features=["word"]),
            r"categorical_features must be the same as in the BinnedTable \(",
        ),
        (
            fe.GradientBoostingRegressor(categories=Categories(missing="category")),
            r"categories\.missing must be the same as in the BinnedTable",
        ),
    ]
    for model, rule in cases:
        with pytest.raises(ValueError, match=rule):
            model.fit(table, table.y)
    kinds = fe.BinnedTable.open(files / "kind")
    for counting in (fe.GaussianNB(), fe.MixedNB(), fe.TANClassifier(), fe.BayesianNetwork()):
        with pytest.raises(ValueError, match=f"not a BinnedTable, for {type(counting).__name__}"):
            counting.fit(kinds)
    with pytest.raises(ValueError, match=r"y must be an array, or the name of the column in the BinnedTable \("):
        fe.GradientBoostingRegressor().fit(table, "size")
    fe.GradientBoostingRegressor(n_estimators=2).fit(table, "price")
    model = fe.GradientBoostingRegressor(n_estimators=2).fit(X.iloc[:100], FRAME["price"][:100])
    with pytest.raises(ValueError, match="X must have the same bins as GradientBoostingRegressor"):
        model.predict(table)
    numbers = fe.GradientBoostingRegressor(n_estimators=2).fit(np.ones((50, 2)), np.arange(50.0))
    with pytest.raises(ValueError, match="X must have the columns that the model was fitted on"):
        numbers.predict(table)


def test_arguments_that_break_their_rules(files, tmp_path):
    with pytest.raises(ValueError, match="path must name a folder that does not exist yet"):
        fe.BinnedTable.from_source(X, path=files / "price")
    with pytest.raises(ValueError, match="max_bins must be an integer from 2 to 65535; got 1"):
        fe.BinnedTable.from_source(X, max_bins=1)
    with pytest.raises(TypeError, match="n_bins"):
        fe.BinnedTable.from_source(X, n_bins=3)
    with pytest.raises(ValueError, match="max_memory must be at least"):
        fe.BinnedTable.from_source(X, max_memory="1MB")
    with pytest.raises(ValueError, match="y must hold only numbers or only strings, without missing values; it"):
        fe.BinnedTable.from_source(X, np.array([None] * N_ROWS))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "fault", ["codes", "records", "short", "format", "nothing", "description", "values", "no codes", "cut bins"]
)
def test_damaged_tables_are_refused(fault, tmp_path):
    path = tmp_path / "t"
    fe.BinnedTable.from_source(X, path=path, keep_values=True)
    state = json.loads((path / "table.json").read_text())
    columns = np.load(path / f"columns-{state['version']}.npy", mmap_mode="r+")
    if fault == "codes":
        columns[0, 7] = 255
    elif fault == "records":
        np.load(path / f"records-{state['version']}.npy", mmap_mode="r+")[3, 1] ^= 1
    elif fault == "values":
        np.save(path / f"values-{state['version']}.npy", np.zeros((N_ROWS, 2)))
    elif fault == "short":
        os.truncate(path / f"columns-{state['version']}.npy", 500)
    elif fault == "format":
        (path / "table.json").write_text(json.dumps(state | {"format": 99}))
    elif fault == "nothing":
        (path / f"hashes-{state['version']}.npy").unlink()
    elif fault == "no codes":
        os.truncate(path / f"columns-{state['version']}.npy", 0)
    elif fault == "cut bins":
        os.truncate(path / f"binning-{state['version']}.npz", 500)
    else:
        (path / "table.json").write_text("{}")
    with pytest.raises(ValueError, match="path must be a folder that BinnedTable wrote"):
        fe.BinnedTable.open(path)


def test_a_source_that_fails_leaves_nothing(tmp_path):
    opened = []

    def rows():
        opened.append(1)
        if len(opened) > 4:
            raise OSError("the disk is gone")
        return FRAME

    with pytest.raises(OSError, match="the disk is gone"):
        fe.BinnedTable.from_source(rows, "price", path=tmp_path / "t")
    assert os.listdir(tmp_path) == []
    table = fe.BinnedTable.from_source(X, path=tmp_path / "t")
    before = sorted(path.name for path in (tmp_path / "t").iterdir())

    def fewer():
        opened.append(1)
        if len(opened) > 9:
            raise OSError("the disk is gone")
        return X

    def append_all():
        whole = table
        while True:
            whole = whole.append(fewer)

    with pytest.raises(OSError, match="the disk is gone"):
        append_all()
    assert len(fe.BinnedTable.open(tmp_path / "t")) >= N_ROWS
    assert os.name == "nt" or len(list((tmp_path / "t").iterdir())) == len(before)
