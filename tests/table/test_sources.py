"""Tables in files and streams: models are those of the table in memory, to the bit, whatever the batches."""

from __future__ import annotations

import gzip
import os
import re
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import fastens as fe
from fastens.engine.parts import parts_of
from fastens.files import csv_streams
from fastens.params.options import Categories, EarlyStopping
from fastens.table import sources
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.opening import in_parts, open_table, split_columns
from fastens.table.sources import SameRows, is_source, open_batches
from reference.children import run_child

N_ROWS, N_FILES = 1200, 3


def make_frame():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=N_ROWS).round(2),
            "count": rng.integers(0, 50, N_ROWS),
            "word": rng.choice(["low", "high", "middle"], N_ROWS),
            "place": rng.choice([f"town {number}" for number in range(40)], N_ROWS),
            "flag": rng.random(N_ROWS) < 0.5,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**7, N_ROWS), unit="s"),
            "copies": rng.integers(0, 3, N_ROWS),
        }
    )
    frame.loc[: N_ROWS // 3, "word"] = None  # in the whole first file
    frame.loc[::11, "size"] = np.nan
    noise = rng.normal(size=N_ROWS)
    frame["price"] = frame["size"].fillna(0) + (frame["word"] == "low") + 0.02 * frame["count"] + noise
    frame["kind"] = np.where(frame["price"] > 0.5, "dear", "cheap")
    return frame


FRAME = make_frame()
TARGETS = ["price", "kind"]
FIVE_ROUNDS = {"n_estimators": 5, "random_state": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    schema = pa.Schema.from_pandas(FRAME)
    for number, part in enumerate(np.array_split(np.arange(N_ROWS), N_FILES)):
        table = pa.Table.from_pandas(FRAME.iloc[part], schema)
        pq.write_table(table, path / f"part{number}.parquet", row_group_size=90)
        FRAME.iloc[part].to_csv(path / f"part{number}.csv", index=False)
        (path / f"part{number}.csv.gz").write_bytes(gzip.compress((path / f"part{number}.csv").read_bytes()))
    return path


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Batches of few rows, and no table of all rows."""
    monkeypatch.setattr(sources, "BATCH_ROWS", 97)


class Stream:
    """What has nothing but a new stream for each pass, as a relation of DuckDB."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def reader(table=None, n_rows=130):
    table = pa.Table.from_pandas(FRAME) if table is None else table
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=n_rows))


SOURCES = {
    "pattern": lambda folder: str(folder / "*.parquet"),
    "paths": lambda folder: [folder / f"part{number}.parquet" for number in range(N_FILES)],
    "csv": lambda folder: str(folder / "*.csv"),
    "compressed csv": lambda folder: str(folder / "*.csv.gz"),
    "dataset": lambda folder: pa.dataset.dataset(sorted(map(str, folder.glob("*.parquet")))),
    "one pass": lambda folder: reader(),
    "stream": lambda folder: Stream(pa.Table.from_pandas(FRAME)),
    "lazy frame": lambda folder: pl.scan_parquet(str(folder / "*.parquet")),
    "function of streams": lambda folder: reader,
    "function of paths": lambda folder: lambda: str(folder / "*.parquet"),
    "arrow": lambda folder: pa.Table.from_pandas(FRAME),
    "pandas": lambda folder: FRAME,
}


def arrays_of(model):
    return dict(getattr(model, "_forest", model)._ensemble.to_arrays())


def assert_same_models(model, other):
    assert model._encoder.to_state() == other._encoder.to_state()
    first, second = arrays_of(model), arrays_of(other)
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array, err_msg=name)


@pytest.fixture(scope="module")
def whole():
    """A model of the table in memory."""
    X = FRAME.drop(columns=[*TARGETS, "copies"])
    return fe.GradientBoostingClassifier(**FIVE_ROUNDS).fit(X, FRAME["kind"], sample_weight=FRAME["copies"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source(kind, folder, whole):
    X = FRAME.drop(columns=[*TARGETS, "copies"])

    def source():
        given = SOURCES[kind](folder)
        if kind == "lazy frame":
            return given.drop("price")
        return given.drop(columns="price") if kind == "pandas" else given

    class NoPrice(fe.GradientBoostingClassifier):
        """The other target would tell."""

    model = NoPrice(**FIVE_ROUNDS)
    given = source()
    if kind not in ("lazy frame", "pandas"):
        given = open_batches(given)
        given = given.select(name for name in given.columns if name != "price")
    model.fit(given, "kind", sample_weight="copies")
    assert_same_models(whole, model)
    assert model.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    found = model.predict_proba(source())
    found = found if kind != "one pass" else np.column_stack(found.read_all().columns)
    np.testing.assert_array_equal(found, whole.predict_proba(X))
    assert model.score(source(), "kind", sample_weight="copies") == whole.score(X, FRAME["kind"], FRAME["copies"])


ENSEMBLES = [
    ("GradientBoostingRegressor", {"subsample": 0.5, "early_stopping": EarlyStopping(refit=True)}),
    ("GradientBoostingRegressor", {"loss": "absolute_error", "categories": Categories(encoding="target")}),
    ("GradientBoostingRegressor", {"categorical_features": ["count", "word", "place"], "boosting": "dart"}),
    ("GradientBoostingClassifier", {"categories": Categories(missing="category"), "early_stopping": True}),
    ("RandomForestClassifier", {"oob_score": True}),
    ("RandomForestRegressor", {"keep_leaves": True, "categorical_encoding": "ordered"}),
    ("ExtraTreesRegressor", {"bootstrap": True, "oob_score": True}),
    ("DecisionTreeClassifier", {}),
    ("DecisionStumpClassifier", {}),
    ("AdaBoostClassifier", {"max_depth": 3}),
    ("AdaBoostRegressor", {}),
    ("BaggingRegressor", {"oob_score": True}),
    ("BayesTreeClassifier", {}),
]


def make(name, options):
    model = getattr(fe, name)()
    given = {"n_estimators": 4, "random_state": 0} | options
    return model.set_params(**{key: value for key, value in given.items() if key in model.get_params()})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), ENSEMBLES)
def test_every_ensemble(name, options, folder):
    target = "kind" if "Classifier" in name else "price"
    other = "price" if target == "kind" else "kind"
    frame = FRAME.drop(columns=other)
    source = open_batches(str(folder / "*.parquet"))
    source = source.select(column for column in source.columns if column != other)
    X = frame.drop(columns=[target, "copies"])
    whole = make(name, options).fit(X, frame[target], sample_weight=frame["copies"])
    model = make(name, options).fit(source, target, sample_weight="copies")
    assert_same_models(whole, model)
    np.testing.assert_array_equal(model.predict(source), whole.predict(X))


@pytest.mark.slow
def test_tables_without_a_target(folder):
    columns = ["size", "count", "flag"]
    source = open_batches(str(folder / "*.parquet")).select(columns)
    for name in ("IsolationForest", "RandomTreesEmbedding"):
        whole, model = (make(name, {}).fit(X) for X in (FRAME[columns], source))
        assert_same_models(whole, model)


def test_queries_and_rows_to_validate_on_are_columns_too(folder):
    frame = FRAME[["size", "count", "copies"]].assign(query=np.arange(N_ROWS) // 10)
    options = {"n_estimators": 4, "random_state": 0}
    X, y, qid = frame[["size", "count"]], frame["copies"], frame["query"]
    table = Stream(pa.Table.from_pandas(frame))
    whole = fe.GradientBoostingRanker(**options, early_stopping=True).fit(X, y, qid=qid, X_val=X, y_val=y, qid_val=qid)
    model = fe.GradientBoostingRanker(**options, early_stopping=True).fit(
        table, "copies", qid="query", X_val=table, y_val="copies", qid_val="query"
    )
    assert_same_models(whole, model)
    np.testing.assert_array_equal(model.evals_result_["validation"]["loss"], whole.evals_result_["validation"]["loss"])
    assert model.score(table, "copies", qid="query") == whole.score(X, y, qid=qid)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1, 13, 5000])
def test_batches_of_any_size(n_rows, monkeypatch):
    monkeypatch.setattr(sources, "BATCH_ROWS", n_rows)
    frame = FRAME[:120].drop(columns="kind")
    given = frame, Stream(pa.Table.from_pandas(frame))
    whole, model = (fe.GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, "price") for X in given)
    assert_same_models(whole, model)


# Types --------------------------------------------------

COUNT = np.arange(N_ROWS)
WORDS = np.random.default_rng(0).choice(["a", "b", "c"], N_ROWS)
COLUMNS = {
    "null": pa.nulls(N_ROWS),
    "null strings": pa.nulls(N_ROWS, pa.string()),
    "run-end encoded": pc.run_end_encode(pa.array(np.repeat([1.0, 2.0], N_ROWS // 2))),
    "string view": pa.array(WORDS.tolist(), pa.string_view()),  # Arrow 18 crashes where it exports some that were cast
    "large string": pa.array(WORDS).cast(pa.large_string()),
    "changing dictionaries": pa.chunked_array([pa.array(part).dictionary_encode() for part in np.split(WORDS, 4)]),
    "decimal": pa.array([Decimal(int(k)) / 8 for k in COUNT % 50]),
    "time": pa.array(COUNT.astype("i4"), pa.int32()).cast(pa.time32("s")),
    "duration": pa.array(COUNT * 7 % 1000, pa.duration("ms")),
    "timestamp": pa.array(COUNT * 10**6, pa.timestamp("ms", tz="Europe/Berlin")),
    "date": pa.array((COUNT * 3).astype("i4"), pa.date32()),
    "half": pa.array(COUNT.astype(np.float16)),
    "float": pa.array(COUNT.astype(np.float32)),
    "whole with gaps": pa.array([None if k % 3 == 0 else int(k % 100) for k in COUNT], pa.int8()),
    "large": pa.array([None if k % 3 == 0 else 2**60 + int(k) for k in COUNT], pa.int64()),
    "unsigned": pa.array([2**63 + 5000 * int(k) for k in COUNT], pa.uint64()),
    "booleans with gaps": pa.array([None if k % 5 == 0 else k % 2 == 0 for k in COUNT]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_of_column(kind):
    table = pa.table({"count": COUNT % 9, "column": COLUMNS[kind]})
    encoder, rows = InputEncoder.learn(table, Reading(), "a model")
    streamed, parts = InputEncoder.learn(lambda: reader(table, 37), Reading(), "a model")
    assert streamed.to_state() == encoder.to_state()
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts_of(parts)]), rows)


@pytest.mark.parametrize("kind", ["nested", "binary"])
def test_types_that_are_not_features(kind):
    values = {"nested": pa.array([{"a": 1}] * N_ROWS), "binary": pa.array([b"a"] * N_ROWS)}
    table = pa.table({"column": values[kind]})
    with pytest.raises(ValueError, match="Column 'column' must hold numbers; it holds "):
        fe.DecisionTreeRegressor().fit(lambda: reader(table), np.arange(N_ROWS))


@pytest.mark.slow
def test_types_that_change_between_files(tmp_path):
    frames = [FRAME[:500], FRAME[500:].astype({"count": float})]
    frames[1].loc[700, "count"] = 0.5
    for number, frame in enumerate(frames):
        frame.to_parquet(tmp_path / f"{number}.parquet")
    model = fe.DecisionTreeRegressor(random_state=0).fit(str(tmp_path / "?.parquet"), "price")
    assert_same_models(model, fe.DecisionTreeRegressor(random_state=0).fit(pd.concat(frames), "price"))
    FRAME[:9].astype({"count": str}).to_parquet(tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"same types in all files; .*3\.parquet"):
        fe.DecisionTreeRegressor().fit(str(tmp_path / "?.parquet"), "price")


@pytest.mark.slow
def test_types_of_csv_match_all_rows(tmp_path):
    lines = ["a;b;c;d;e;f;g"] + ["1;1,5;?;2020-01-01;;x;31.12.2020"] * 100_000
    lines += ["2,5;3;maybe;2020-01-01 10:00:00;7;;1.1.2021", "1;;;;;;"]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(lines))
    expected = fe.read_table(path)
    found = open_batches([path])
    assert dict(zip(found.columns, found.typed().schema.types, strict=True)) == dict(
        zip(expected.column_names, expected.schema.types, strict=True)
    )
    assert found.shape == expected.shape
    parts = pa.concat_tables(list(found.select(["f", "a"]).parts()))
    assert parts.equals(expected.select(["f", "a"]))
    (tmp_path / "other.csv").write_text("a,z\n1,2\n")
    with pytest.raises(ValueError, match=r"other\.csv must have the columns of .*late\.csv, .*; it has 'a', 'z'"):
        open_batches([path, tmp_path / "other.csv"])
    (tmp_path / "ragged.csv").write_text("a,z\n1,2\n1\n")
    with pytest.raises(
        ValueError, match=r"ragged\.csv: every line must have 2 values, like the header; line 3 has 1: '1'"
    ):
        open_batches(str(tmp_path / "ragged.csv"))


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        ("1", "one", "row 10001: 'one' is not a number, unlike the first .* use --column a:text"),
        ("true", "maybe", "row 10001: 'maybe' is not true or false, unlike the first .* use --column a:text"),
        ("2020-01-01", "soon", "row 10001: 'soon' is not a date, unlike the first .* use --column a:text"),
        ("1.234,50 €", "9.5", "row 10001: '9.5' is not a number written like '€1.234,5'"),
        ("31.12.2020", "1/1/21", r"row 10001: '1/1/21' is not a date written as %d\.%m\.%Y"),
    ],
)
def test_values_that_do_not_fit_the_first_ones(first, later, message, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_streams, "BLOCK_BYTES", 1 << 14)
    (tmp_path / "late.csv").write_text("a;b\n" + f"{first};x\n" * 10_000 + f"{later};y\n")
    with pytest.raises(ValueError, match=rf"late\.csv: column 'a', {message}"):
        open_batches(tmp_path / "late.csv")


def test_csv_files_are_read_as_by_read_table(tmp_path):
    content = "name;price;n\nJosé;1.234,50;3\nZoë;?;\n"
    (tmp_path / "latin.csv").write_bytes(content.encode("latin-1"))
    expected = fe.read_table(tmp_path / "latin.csv")
    (found,) = open_batches(tmp_path / "latin.csv").parts()
    assert found.cast(expected.schema).equals(expected)
    # Letters that are not of the first encoding come long after the head.
    late = "name;n\n" + "Zoe;1\n" * 200_000 + "José;2\n"
    (tmp_path / "late.csv").write_bytes(late.encode("latin-1"))
    names = open_batches(tmp_path / "late.csv").select(["name"]).values_of(["name"])[0]
    assert set(names.tolist()) == {"Zoe", "José"}


# What is read --------------------------------------------------


def test_only_the_columns_that_are_needed_are_read(folder, monkeypatch):
    batches = open_batches(str(folder / "*.parquet"))
    read, seen = batches._reader.read, []
    monkeypatch.setattr(batches._reader, "read", lambda columns: seen.append(columns) or read(columns))
    columns = ["size", "count", "word", "price"]
    model = fe.GradientBoostingRegressor(n_estimators=2).fit(batches.select(columns), "price")
    assert seen == [["price"], ["word"], *[["size", "count", "word"]] * 2]
    seen.clear()
    model.predict(batches)
    assert seen == [["size", "count", "word"]]


def test_targets_and_weights_by_name():
    X, y, weight = split_columns(FRAME, y="kind", sample_weight="copies")
    assert list(X) == [name for name in FRAME if name not in ("kind", "copies")]
    assert y.tolist() == FRAME["kind"].tolist()
    assert weight.tolist() == FRAME["copies"].tolist()
    table, same = split_columns(reader, y="copies")
    assert same.tolist() == weight.tolist()
    assert table.shape == (N_ROWS, FRAME.shape[1] - 1)
    assert split_columns(FRAME, y=weight)[0] is FRAME
    words = pa.table({"word": pa.array(["b", None, "a", "b"]), "a": [1, 2, 3, 4]})
    assert split_columns(lambda: reader(words, 2), y="word")[1].tolist() == ["b", None, "a", "b"]


def test_names_of_columns_that_are_not_there(folder):
    model = fe.GradientBoostingRegressor()
    with pytest.raises(ValueError, match=r"y must name a column of X; got 'cost', and the columns are \['size'"):
        model.fit(str(folder / "*.parquet"), "cost")
    with pytest.raises(ValueError, match="sample_weight must name a column of X; got 'w'"):
        model.fit(FRAME, "price", sample_weight="w")
    with pytest.raises(ValueError, match="y must be an array if X has no column names; got 'price'"):
        model.fit(np.ones((3, 2)), "price")
    model.set_params(n_estimators=2).fit(FRAME[["size", "count"]], FRAME["price"])
    with pytest.raises(ValueError, match="yet now missing:\n- count"):
        model.predict(open_batches(str(folder / "*.parquet")).select(["size"]))


def test_accepted_sources():
    for source in ("a.csv", Path("a"), ["a.csv", Path("b.PARQUET")], Stream(None), pl.LazyFrame(), reader(), reader):
        assert is_source(source)
    for table in (FRAME, FRAME.to_numpy(), pl.DataFrame(), pa.table({}), ["a", "b"], [[1.0]], [], None, list):
        assert not is_source(table)


# Faults --------------------------------------------------


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="X must name existing files or a folder; there is nothing at"):
        open_batches(str(tmp_path / "*.parquet"))
    (tmp_path / "a.txt.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"X must name either Parquet files or CSV files \(optionally"):
        open_batches(tmp_path / "a.txt.xlsx")
    with pytest.raises(ValueError, match=r"X must name either Parquet files or CSV files \(optionally"):
        open_batches(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 is all")
    with pytest.raises((ValueError, OSError), match=r"a\.parquet"):
        open_batches(tmp_path / "a.parquet")
    FRAME[["size"]].to_parquet(tmp_path / "b.parquet")
    batches = open_batches(tmp_path / "b.parquet")
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.parquet"):
        fe.DecisionTreeRegressor().fit(batches, FRAME["price"])


@pytest.mark.parametrize(("n_later", "message"), [(1100, "1100 of 1200"), (1300, "more than 1200"), (0, "0 of 1200")])
def test_other_rows_at_the_second_pass(n_later, message):
    table = pa.table({"size": np.arange(1300.0), "price": np.arange(1300.0)})
    opened = []

    def source():
        opened.append(1)
        return reader(table[: N_ROWS if len(opened) < 4 else n_later])

    with pytest.raises(ValueError, match=f"X must yield the same rows in every pass; it yielded {message}"):
        fe.DecisionTreeRegressor().fit(source, "price")


def changed(table, column):
    """The table with another value in the last row of a column, one that other rows have."""
    values = table[column].to_pylist()
    other = next(value for value in values if value not in (values[-1], None))
    return table.set_column(table.column_names.index(column), column, pa.array([*values[:-1], other]))


@pytest.mark.slow
@pytest.mark.parametrize("column", ["size", "word", "flag", "when", "order"])
def test_other_values_at_the_last_pass(column):
    table = pa.Table.from_pandas(FRAME[["size", "word", "flag", "when", "price"]])
    other = table[::-1] if column == "order" else changed(table, column)
    opened = []

    def source(n_whole=1000):
        opened.append(1)
        return reader(other if len(opened) > n_whole else table, 130 + len(opened))

    fe.DecisionTreeRegressor().fit(source, "price")
    n_whole = len(opened) - 1
    opened.clear()
    where = "size" if column == "order" else column
    with pytest.raises(ValueError, match=f"same rows in every pass; column '{where}' has other values or another ord"):
        fe.DecisionTreeRegressor().fit(lambda: source(n_whole), "price")


def test_sums_of_passes_do_not_depend_on_batches():
    whole = np.arange(70_000) % 7
    table = pa.table({"a": whole, "b": pa.array(whole).cast(pa.string()).dictionary_encode()})
    passes = SameRows()
    for n_rows in (70_000, 999):
        assert sum(map(len, passes.check_pass(table.to_batches(max_chunksize=n_rows), ["a", "b"]))) == 70_000
    later = np.where(np.arange(70_000) >= 69_984, 9, whole)  # one of these rows is looked at
    with pytest.raises(ValueError, match="column 'a' has other values"):
        list(passes.check_pass(table.set_column(0, "a", pa.array(later)).to_batches(), ["a", "b"]))


def test_a_file_that_is_cut_short_between_passes(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(FRAME[["size", "price"]]), path, row_group_size=100)
    batches = open_batches(path)
    passes = []

    def on_rows(n_rows):
        passes.append(n_rows) if n_rows is None else None
        if len(passes) == 2:
            os.truncate(path, 3000)

    batches.on_rows = on_rows
    with pytest.raises(OSError, match=r"rows\.parquet"):
        fe.DecisionTreeRegressor().fit(batches, "price")


def test_relations_of_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT size, count, price FROM '{folder}/*.parquet'")
        whole = fe.DecisionTreeRegressor(random_state=0).fit(FRAME[["size", "count"]], FRAME["price"])
        assert_same_models(whole, fe.DecisionTreeRegressor(random_state=0).fit(relation, "price"))
        connection.execute("CREATE TABLE gone AS SELECT 1.5 AS price, 2 AS size")
        table = connection.table("gone")
        connection.execute("DROP TABLE gone")
        with pytest.raises(duckdb.Error, match="gone"):
            fe.DecisionTreeRegressor().fit(table, "price")
    with pytest.raises(duckdb.Error, match="closed"):
        fe.DecisionTreeRegressor().fit(relation, "price")


def of_datafusion(path):
    return pytest.importorskip("datafusion").SessionContext().read_parquet(path)


def of_ibis(path):
    return pytest.importorskip("ibis").duckdb.connect().read_parquet(path)


def of_nanoarrow(path):
    return pytest.importorskip("nanoarrow").ArrayStream(pq.read_table(path))


@pytest.mark.parametrize("opened", [of_datafusion, of_ibis, of_nanoarrow])
def test_tables_of_other_engines(opened, tmp_path):
    FRAME.to_parquet(tmp_path / "all.parquet")
    whole = fe.DecisionTreeRegressor(random_state=0).fit(FRAME[["size", "count"]], FRAME["price"])
    source = fe.TableSource(opened(tmp_path / "all.parquet"), columns=["size", "count", "price"])
    assert_same_models(whole, fe.DecisionTreeRegressor(random_state=0).fit(source, "price"))


class OneStream(Stream):
    """What has one stream, and the same, which is used up, for the next pass."""

    def __init__(self, table):
        super().__init__(reader(table))


def test_a_stream_that_is_used_up():
    with pytest.raises(ValueError, match="X must yield the same rows in every pass; it yielded"):
        fe.DecisionTreeRegressor().fit(OneStream(pa.Table.from_pandas(FRAME[["size", "price"]])), "price")


def test_streams_of_one_pass_are_copied_to_a_file_that_goes_again(tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = open_table(reader(), "a model")
    assert len(os.listdir(tmp_path)) == 1
    assert [sum(len(part) for _, part in parts_of(table.source)) for _ in range(2)] == [N_ROWS] * 2
    del table
    assert os.listdir(tmp_path) == []
    (tmp_path / "spilt").mkdir()
    table = in_parts(fe.TableSource(reader(), spill_dir=tmp_path / "spilt"))
    assert len(os.listdir(tmp_path / "spilt")) == 1
    del table
    (tmp_path / "spilt").rmdir()

    def broken():
        yield pa.record_batch({"a": [1]})
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        open_table(pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), broken()), "a model")
    assert os.listdir(tmp_path) == []

    def interrupted():
        yield pa.record_batch({"a": [1]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_table(pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), interrupted()), "a model")
    assert os.listdir(tmp_path) == []
    assert not recwarn.list


FULL = """
import resource, sys
import numpy, pyarrow, fastens
from fastens.table.opening import in_parts
table = pyarrow.table({"a": numpy.arange(9999.0)})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))
in_parts(fastens.TableSource(table.to_reader(500), spill_dir="."))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of files are those of POSIX")
def test_a_disk_too_full_for_a_stream(tmp_path):
    done = run_child(FULL, folder=tmp_path)
    assert "OSError: spill_dir must have space for a copy of X, because X is a stream; got '.'" in done.stderr
    assert os.listdir(tmp_path) == []


def test_empty_tables(tmp_path):
    FRAME[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        fe.DecisionTreeRegressor().fit(tmp_path / "empty.parquet", "price")


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=re.escape("pip install fastens[arrow]")):
        fe.DecisionTreeRegressor().fit("table.parquet", "price")


def test_lazy_frames_of_an_older_polars_name_the_release(monkeypatch):
    frame = pl.LazyFrame({"a": [1.0, 2.0]})
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    with pytest.raises(ImportError, match=re.escape("pip install 'polars>=1.34'")):
        open_batches(frame)


# Memory --------------------------------------------------

PEAK = """
import resource, sys
import fastens
model = fastens.GradientBoostingRegressor(n_estimators=2, n_jobs=1).fit(sys.argv[1], "y")
model.predict(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_of(path, n_parts):
    generator, names = np.random.default_rng(0), [f"x{number}" for number in range(30)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in [*names, "y"]])) as writer:
        for _ in range(n_parts):
            part = {name: generator.normal(size=50_000) for name in names}
            writer.write_table(pa.table(part | {"y": part["x0"] + part["x1"]}))
    return int(run_child(PEAK, path, folder=path.parent).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in other units elsewhere")
def test_the_raw_table_is_never_in_memory(tmp_path):
    # 400 000 rows more are 99 MB of floats. Codes by column and by row are 24 more, targets and the like some 15; what
    # is read ahead differs from run to run.
    assert peak_of(tmp_path / "more.parquet", 10) - peak_of(tmp_path / "few.parquet", 2) < 95_000
