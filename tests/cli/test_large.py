"""Tables larger than memory on the command line: trained on, and predicted for, part by part."""

from __future__ import annotations

import importlib
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import fastens
from fastens.cli.report import progress
from fastens.cli.table import large
from fastens.files import csv_streams
from fastens.table import sources
from reference.children import COMMAND, run_child

# Lifted at the child's end, when what counts lines for tools/coverage.sh writes its files.
LIMIT = (
    "import atexit, resource; limits = resource.getrlimit(resource.RLIMIT_FSIZE);"
    "atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, limits);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, limits[1]));"
)


@pytest.fixture
def large_files(houses, tmp_path, monkeypatch):
    """The houses in two Parquet files and two of CSV, which count as large, read in small batches."""
    monkeypatch.setattr(large, "LARGE_BYTES", 0)
    monkeypatch.setattr(sources, "BATCH_ROWS", 37)
    monkeypatch.setattr(csv_streams, "BLOCK_BYTES", 1 << 12)
    for number, part in enumerate((houses[:160], houses[160:])):
        pq.write_table(part, tmp_path / f"part{number}.parquet", row_group_size=90)
        pyarrow.csv.write_csv(part, tmp_path / f"part{number}.csv")
    return tmp_path


def trees_of(path):
    return fastens.load(path)._ensemble.to_arrays()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "sold"])
@pytest.mark.parametrize("tables", [["*.parquet"], ["part0.parquet", "part1.parquet"], ["part?.csv"]])
def test_the_model_matches_the_table_in_memory(run, houses, large_files, monkeypatch, tables, target):
    given = ["--target", target, "--drop", "price" if target == "sold" else "sold", "--n-estimators", 5]
    done = run("train", *tables, *given, "-o", "large.fastens")
    assert done.code == 0, done.err
    assert "(240 for training, 60 held out)" in done.out
    monkeypatch.setattr(large, "LARGE_BYTES", 1 << 40)
    whole = run("train", *tables, *given, "-o", "whole.fastens")
    for name, array in trees_of("whole.fastens").items():
        np.testing.assert_array_equal(trees_of("large.fastens")[name], array, err_msg=name)
    scores = [line for line in whole.out.splitlines() if line.startswith("  ")]
    assert scores == [line for line in done.out.splitlines() if line.startswith("  ")]
    cards = [fastens.load(name).metadata_["table"] for name in ("large.fastens", "whole.fastens")]
    assert cards[0]["kinds"] == cards[1]["kinds"]
    assert cards[0]["split"] == cards[1]["split"]


@pytest.mark.slow
def test_a_ceiling_for_memory(run, large_files, monkeypatch):
    """Files of any size are read in batches under it, and codes that do not fit are files: the same model."""
    given = ["train", "*.parquet", "--target", "price", "--drop", "sold", "--n-estimators", 3]
    monkeypatch.setattr(large, "LARGE_BYTES", 1 << 40)
    assert run(*given, "-o", "whole.fastens").code == 0
    refused = run(*given, "--max-memory", "1MB", "-o", "small.fastens")
    assert refused.code == 2
    assert "max_memory must be at least" in refused.err
    least = re.search(r"at least ([\d.]+ ?[kMG]?B)", refused.err)[1]
    done = run(*given, "--max-memory", least, "--spill-dir", str(large_files), "-o", "limited.fastens")
    assert done.code == 0, done.err
    for name, array in trees_of("whole.fastens").items():
        np.testing.assert_array_equal(trees_of("limited.fastens")[name], array, err_msg=name)
    for wrong in (["--max-memory", "much"], ["--max-memory", "1GB", "--spill-dir", "nowhere"]):
        assert run(*given, *wrong).code == 2
    assert (
        "--max-memory must not be used with --dask, because workers use as"
        in run(*given, "--max-memory", "1GB", "--dask", "local:1").err
    )


@pytest.mark.slow
@pytest.mark.parametrize("tables", ["*.parquet", "part?.csv"])
@pytest.mark.parametrize("size", [0, 1 << 40])
def test_models_that_need_the_table_in_memory_read_it_whole(run, large_files, monkeypatch, tables, size):
    """However large it is; a ceiling holds for what training takes besides."""
    given = ["train", tables, "--target", "price", "--drop", "sold", "--model", "conformal", "--test-fraction", 0]
    monkeypatch.setattr(large, "LARGE_BYTES", size)
    assert "max_memory must be at least" in run(*given, "--max-memory", "1MB", "-o", "small.fastens").err
    assert run(*given, "--max-memory", "1GB", "-o", "limited.fastens").code == 0
    assert run(*given, "-o", "free.fastens").code == 0
    X = pq.read_table(large_files / "part0.parquet").drop_columns(["price", "sold"])
    intervals = [fastens.load(name).predict_interval(X) for name in ("limited.fastens", "free.fastens")]
    np.testing.assert_array_equal(*intervals)


@pytest.mark.slow
def test_a_ceiling_for_tables_that_are_not_read_in_batches(run):
    """That of the package, and texts."""
    assert "max_memory must be at least" in run("train", "--max-memory", "1MB").err
    assert run("train", "--max-memory", "1GB").code == 0
    texts = pa.table({"text": ["good film", "bad film"] * 30, "label": ["yes", "no"] * 30})
    pyarrow.csv.write_csv(texts, "texts.csv")
    given = ["train", "texts.csv", "--text", "text", "--target", "label"]
    assert "max_memory must be at least" in run(*given, "--max-memory", "1MB").err
    assert run(*given, "--max-memory", "1GB").code == 0


def test_rows_without_target_or_weight_are_left_out(run, houses, large_files, monkeypatch):
    rng = np.random.default_rng(2)
    houses = houses.append_column("weight", pa.array(rng.integers(0, 3, 300)))
    price = pa.array(houses["price"].to_numpy(), mask=np.arange(300) % 7 == 0)
    houses = houses.set_column(houses.column_names.index("price"), "price", price)
    pq.write_table(houses, "rows.parquet")
    given = ["rows.parquet", "--target", "price", "--weight", "weight", "--drop", "sold", "--n-estimators", 4]
    done = run("train", *given, "-o", "large.fastens")
    assert "is missing: 43 of 300 rows" in done.out
    monkeypatch.setattr(large, "LARGE_BYTES", 1 << 40)
    run("train", *given, "-o", "whole.fastens")
    for name, array in trees_of("whole.fastens").items():
        np.testing.assert_array_equal(trees_of("large.fastens")[name], array, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["out.parquet", "out.csv"])
def test_predictions_part_by_part(run, houses, large_files, out):
    run("train", "*.parquet", "--target", "sold", "--drop", "price", "--n-estimators", 4)
    done = run("predict", "model.fastens", "part0.parquet", "part1.parquet", "-o", out, "--keep", "price,town")
    assert "300 rows predicted" in done.err
    found = fastens.read_table(out)
    assert found.column_names == ["price", "town", "prediction", "probability no", "probability yes"]
    assert found["town"].to_pylist() == houses["town"].to_pylist()
    run("predict", "model.fastens", "part*.csv", "-o", "other.parquet")
    np.testing.assert_array_equal(
        pq.read_table("other.parquet")["probability yes"].to_numpy(), found["probability yes"].to_numpy()
    )
    if out.endswith(".parquet"):
        assert pq.ParquetFile(out).metadata.num_row_groups > 4


@pytest.mark.slow
def test_only_columns_that_are_needed_are_read(run, houses, large_files):
    """The pages of a column that the model does not use are spoilt, and nobody sees it."""
    run("train", "*.parquet", "--target", "price", "--drop", "sold,built", "--n-estimators", 4)
    pq.write_table(houses, "new.parquet", use_dictionary=False, compression="none")
    metadata = pq.ParquetFile("new.parquet").metadata.row_group(0)
    (column,) = (metadata.column(k) for k in range(metadata.num_columns) if metadata.column(k).path_in_schema == "sold")
    content = bytearray(Path("new.parquet").read_bytes())
    start = column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    Path("new.parquet").write_bytes(content)
    assert run("predict", "model.fastens", "new.parquet", "-o", "out.parquet").code == 0
    model = fastens.load("model.fastens")
    assert len(model.predict("new.parquet")) == 300
    spoilt = run("predict", "model.fastens", "new.parquet", "-o", "all.parquet", "--keep", "sold")
    assert spoilt.code == 2
    assert not os.path.exists("all.parquet")


# Faults --------------------------------------------------


def left_over(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_an_interrupted_prediction_leaves_nothing(run, large_files, monkeypatch):
    run("train", "*.parquet", "--target", "price", "--drop", "sold", "--n-estimators", 4)
    Path("out.parquet").write_bytes(Path("part0.parquet").read_bytes())
    predict, done = importlib.import_module("fastens.cli.predict"), []
    predicted = predict.predict_values

    def interrupted(model, X):
        done.append(X.num_rows)
        if len(done) == 3:
            raise KeyboardInterrupt
        return predicted(model, X)

    monkeypatch.setattr(predict, "predict_values", interrupted)
    before = Path("out.parquet").read_bytes()
    assert run("predict", "model.fastens", "part?.parquet", "-o", "out.parquet").code == 130
    assert Path("out.parquet").read_bytes() == before
    assert left_over(large_files) == []


def truncate(path):
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: truncate("part1.parquet"), r"part1\.parquet"),
        (lambda: os.remove("part1.parquet"), r"part1\.parquet"),
        (lambda: pq.write_table(pq.read_table("part1.parquet").drop_columns(["area"]), "part1.parquet"), "area"),
        (
            lambda: pq.write_table(
                (t := pq.read_table("part1.parquet")).set_column(0, "area", pa.array(["wide"] * t.num_rows)),
                "part1.parquet",
            ),
            r"same types in all files; .*part1\.parquet",
        ),
    ],
    ids=["truncated", "vanished", "lacking", "other type"],
)
def test_files_that_are_not_as_the_others(run, large_files, change, message):
    run("train", "part0.parquet", "--target", "price", "--drop", "sold", "--n-estimators", 4)
    change()
    for command in (
        ("predict", "model.fastens", "part0.parquet", "part1.parquet", "-o", "out.csv"),
        ("train", "part0.parquet", "part1.parquet", "--target", "price", "--drop", "sold", "-o", "new.fastens"),
    ):
        done = run(*command)
        if message == "area" and done.code == 0:
            continue  # a column that a file lacks is missing there
        assert done.code == 2
        assert len(done.err.splitlines()) == 1
        assert re.search(message, done.err)
        assert not os.path.exists(command[-1])
    assert left_over(large_files) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of files are those of POSIX")
def test_a_full_disk(run, large_files):
    run("train", "*.parquet", "--target", "price", "--drop", "sold", "--n-estimators", 4)
    given = ("predict", "model.fastens", "part0.parquet", "-o", "out.csv", "--keep-all")
    done = run_child(LIMIT.format(2000) + COMMAND, *given, folder=large_files)
    assert done.returncode == 2, done.stderr
    assert re.match(r"fastens: cannot write out\.csv: .*File too large", done.stderr)
    assert left_over(large_files) == []
    assert not (large_files / "out.csv").exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of files are those of POSIX")
def test_a_disk_too_full_for_codes(run, large_files):
    given = ["train", "part0.parquet", "--target", "price", "--drop", "sold", "--spill-dir", str(large_files)]
    least = re.search(r"at least ([\d.]+ ?[kMG]?B)", run(*given, "--max-memory", "1MB").err)[1]
    names = sorted(os.listdir(large_files))
    code = (
        "from fastens.table import source;"
        "source.MemoryLimits.allocator = lambda limits, *_: source.TemporaryFiles(limits.spill_dir);"
    )
    done = run_child(LIMIT.format(500) + code + COMMAND, *given, "--max-memory", least, folder=large_files)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match(r"fastens: .*spill_dir or path must be on a disk with \d+ free bytes", line)
    assert sorted(os.listdir(large_files)) == names


def test_a_bar_of_rows(run, large_files):
    X = sources.open_batches(str(large_files / "*.parquet")).select(["area", "rooms"])
    seen = []
    with progress.training_progress(Console(file=open(os.devnull, "w")), X) as on_round:
        own = X.on_rows
        X.on_rows = lambda n: (seen.append(n), own(n))
        assert sum(part.num_rows for part in X.parts()) == 300
        on_round(0, 2, 1.0, None)
    assert X.on_rows is None
    assert seen[0] is None
    assert sum(seen[1:]) == 300


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(run, large_files, monkeypatch):
    given = ["*.parquet", "--target", "price", "--drop", "sold", "--n-estimators", 25]
    run("train", *given, "-o", "whole.fastens")
    command = ["train", *given, "--checkpoint", "half.fastens", "-o", "model.fastens"]
    bar = progress.training_progress

    @contextmanager
    def interrupted(*arguments):
        with bar(*arguments) as on_round:

            def interrupt(index, *found):
                on_round(index, *found)
                if index == 16:
                    raise KeyboardInterrupt

            yield interrupt

    train = importlib.import_module("fastens.cli.train")
    monkeypatch.setattr(train, "training_progress", interrupted)
    assert run(*command).code == 130
    assert fastens.load("half.fastens").n_estimators_ == 10
    assert not os.path.exists("model.fastens")
    assert left_over(large_files) == []
    monkeypatch.setattr(train, "training_progress", bar)
    done = run(*command)
    assert done.code == 0, done.err
    assert not os.path.exists("half.fastens")
    for name, array in trees_of("whole.fastens").items():
        np.testing.assert_array_equal(trees_of("model.fastens")[name], array, err_msg=name)
    same = run("train", *given, "--checkpoint", "half.fastens", "-o", "./half.fastens")
    assert (same.code, "--output and --checkpoint must be different files" in same.err) == (2, True)
    forest = run("train", *given, "--checkpoint", "half.fastens", "--model", "forest")
    assert (forest.code, "--checkpoint requires --model boosting" in forest.err) == (2, True)
    best = run("train", *given, "--checkpoint", "half.fastens", "--quality", "best")
    assert (best.code, "--checkpoint requires a single model; --quality best trains" in best.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [("table.csv", pa.string()), ("table.parquet", pa.string()), ("table.parquet", pa.string_view())],
    ids=str,
)
def test_types_of_columns_match_the_table_read_whole(run, name, text):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "price": [f"{value:.2f}".replace(".", ",") for value in rng.normal(size=200)],
            "day": [f"{number % 28 + 1:02d}.12.2020" for number in range(200)],
            "flag": rng.integers(0, 2, 200),
            "open": rng.choice(["true", "false"], 200),
            "count": rng.integers(0, 9, 200),
            "y": rng.normal(size=200),
        }
    )
    if name.endswith(".csv"):
        pa.csv.write_csv(table, name, pa.csv.WriteOptions(delimiter=";"))
    else:
        texts = [pa.field(each.name, text if each.type == pa.string() else each.type) for each in table.schema]
        pq.write_table(table.cast(pa.schema(texts)), name)
    given = ("train", name, "--target", "y", "--n-estimators", 5)
    columns = ["price:number", "day:date", "flag:boolean", "open:boolean", "count:category"]
    for options in ([], [f"--column={column}" for column in columns]):
        assert run(*given, *options, "-o", "whole.fastens").code == 0
        assert run(*given, *options, "-o", "parts.fastens", "--max-memory", "1GB").code == 0
        assert Path("parts.fastens").read_bytes() == Path("whole.fastens").read_bytes()
        predicted = run("predict", "whole.fastens", name, "-o", "out.csv")
        assert predicted.code == 0, predicted.err
    for wrong in ("count:date", "count:boolean"):
        refused = [run(*given, "--column", wrong, *memory) for memory in ((), ("--max-memory", "1GB"))]
        assert [(outcome.code, "cannot be read as" in outcome.err) for outcome in refused] == [(2, True)] * 2


def test_numbers_in_parentheses_beyond_the_first_batch(run, monkeypatch):
    monkeypatch.setattr(csv_streams, "BLOCK_BYTES", 1 << 10)
    amounts = [f"({row})" if row > 450 and row % 9 == 0 else str(row) for row in range(500)]
    pa.csv.write_csv(pa.table({"amount": amounts, "y": [float(row % 50) for row in range(500)]}), "t.csv")
    given = ("train", "t.csv", "--target", "y", "--n-estimators", 3, "--column", "amount:number")
    assert run(*given, "-o", "whole.fastens").code == 0
    done = run(*given, "-o", "parts.fastens", "--max-memory", "1GB")
    assert done.code == 0, done.err
    assert Path("parts.fastens").read_bytes() == Path("whole.fastens").read_bytes()
    predicted = run("predict", "whole.fastens", "t.csv", "-o", "out.csv")
    assert predicted.code == 0, predicted.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
@pytest.mark.parametrize("first", [5, 450])
def test_non_numbers_in_numeric_columns_are_missing_in_predictions(run, monkeypatch, name, first):
    monkeypatch.setattr(csv_streams, "BLOCK_BYTES", 1 << 10)
    values = ["lost" if row >= first and row % 9 == 0 else f"{row / 4}" for row in range(500)]
    table = pa.table({"v": values, "y": [float(row % 50) for row in range(500)]})
    (pa.csv.write_csv if name.endswith(".csv") else pq.write_table)(table, name)
    given = ("train", name, "--target", "y", "--n-estimators", 3, "--column", "v:number")
    for memory in ((), ("--max-memory", "1GB")):
        done = run(*given, *memory, "-o", f"m{len(memory)}")
        assert done.code == 0, done.err
    assert Path("m0").read_bytes() == Path("m2").read_bytes()
    predicted = run("predict", "m0", name, "-o", "out.csv")
    assert predicted.code == 0, predicted.err
    assert "Scores on 500 rows" in run("evaluate", "m0", name).out
    unknown = fastens.load("m0").predict(pa.table({"v": [None]}, schema=pa.schema([("v", pa.float64())])))
    predictions = pa.csv.read_csv("out.csv")["prediction"].to_numpy()
    np.testing.assert_allclose(predictions[[value == "lost" for value in values]], unknown[0])


PEAK = """
import resource, sys
from fastens.cli import main
assert main(["predict", sys.argv[1], sys.argv[2], "-o", sys.argv[3]]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in other units elsewhere")
def test_predictions_take_the_memory_of_a_part(tmp_path):
    rng, names = np.random.default_rng(0), [f"x{number}" for number in range(20)]
    first = pa.table({name: rng.normal(size=50_000).round(3) for name in names})
    model = fastens.DecisionTreeRegressor(max_depth=3).fit(first, first["x0"].to_numpy())
    model.save(tmp_path / "model.fastens")

    def peak_of(n_parts):
        path = tmp_path / f"{n_parts}.parquet"
        with pq.ParquetWriter(path, first.schema) as file:
            for _ in range(n_parts):
                file.write_table(first)
        done = run_child(PEAK, "model.fastens", path.name, "out.parquet", folder=tmp_path)
        return int(done.stdout)

    # 700 000 rows more are 112 MB of floats; so many batches as are read ahead are there with fewer rows too.
    assert peak_of(24) - peak_of(10) < 50_000
