"""`fastens train --dask`: the rows of each file go to a worker, and the model is that of one machine."""

from __future__ import annotations

import io
import re

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import fastens
from fastens.cli.report.progress import cluster_progress
from fastens.distributed import FitProgress

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def address():
    setup = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**setup) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def files(houses, tmp_path):
    for number, part in enumerate((houses[:160], houses[160:210], houses[210:])):
        pq.write_table(part, tmp_path / f"part{number}.parquet")
        pyarrow.csv.write_csv(part, tmp_path / f"part{number}.csv")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("given", [["*.parquet", "--target", "price"], ["*.csv", "--target", "sold"]])
def test_the_model_matches_one_machine(run, files, address, given):
    given = [*given, "--drop", "sold" if given[-1] == "price" else "price", "--n-estimators", 5]
    whole = run("train", *given, "-o", "whole.fastens")
    done = run("train", *given, "--dask", address, "-o", "spread.fastens")
    assert done.code == 0, done.err
    assert "2 workers, and the first worker sent" in done.out
    found, expected = (fastens.load(name)._ensemble.to_arrays() for name in ("spread.fastens", "whole.fastens"))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    scores = [[line.split() for line in out.splitlines() if line.startswith("  ")] for out in (whole.out, done.out)]
    assert scores[0] == scores[1]


@pytest.mark.slow
def test_models_without_rounds(run, files, address):
    given = ["*.parquet", "--target", "sold", "--drop", "price", "--model", "naive-bayes"]
    assert run("train", *given, "-o", "whole.fastens").code == 0
    done = run("train", *given, "--dask", address, "-o", "spread.fastens")
    assert done.code == 0, done.err
    tables = [fastens.load(name)._to_state()[0] for name in ("spread.fastens", "whole.fastens")]
    for name, array in tables[1].items():
        np.testing.assert_array_equal(tables[0][name], array, err_msg=name)


@pytest.mark.slow
def test_errors_name_the_option(run, files):
    given = ["train", "*.parquet", "--target", "price"]
    assert "--dask local:N must have at least one process; got 'local:0'" in run(*given, "--dask", "local:0").err
    assert "no scheduler answers; got 'nowhere'" in run(*given, "--dask", "nowhere").err
    message = "--dask requires CSV or Parquet files and does not support --model text"
    assert message in run("train", "--dask", "local:2").err


def test_a_bar_shows_rounds_workers_and_bytes():
    console = Console(file=io.StringIO(), force_terminal=True, no_color=True, width=160)
    with cluster_progress(console) as show:
        show(FitProgress(3, 10, 0.5, None, 4, 20, 2_500_000))
    assert re.search(r"3/10.* loss 0\.50000  4 workers  2\.5 MB sent", console.file.getvalue())
