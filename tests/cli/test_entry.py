"""The commands as a user calls them; every mistake gets one line and exit code 2."""

import importlib
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import fastens
from fastens.cli import entry
from fastens.cli.table.columns import CommandError
from reference.children import COMMAND, run_child


def fastens_command(*arguments: object, folder: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run the fastens that these tests import, in a folder."""
    command = [sys.executable, "-m", "fastens", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(Path(fastens.__file__).parents[1]), **variables}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )


@pytest.mark.slow
def test_from_the_table_to_predictions(houses, write_csv, tmp_path):
    write_csv(houses)
    train = ("train", "table.csv", "--target", "price", "--n-estimators", 5)
    done = fastens_command(*train, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "RMSE" in done.stdout
    assert "\x1b" not in done.stdout
    done = run_child(COMMAND, "predict", "model.fastens", "table.csv", "-o", "out.csv", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 301


@pytest.mark.slow
def test_a_mistake(tmp_path):
    done = run_child(COMMAND, "train", "none.csv", "--target", "y", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "fastens: no such file: none.csv\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("grow",), "invalid choice: 'grow'"),
        (("train", "none.csv", "--target", "y"), "no such file: none.csv"),
        (
            ("train", "table.csv", "--target", "sold", "--encoding", "none"),
            "encoding must be None or an encoding that Python supports",
        ),
        (
            ("train", "table.csv", "--target", "sold", "--separator", ";;"),
            "separator must be None or one ASCII character",
        ),
        (
            ("train", "table.csv", "--target", "sold", "--skip-lines", "999"),
            "skip_lines must be less than the number of lines at the start of the",
        ),
        (
            ("train", "table.csv", "--target", "sold", "--column", "area:date"),
            "'area' cannot be read as date: it holds",
        ),
        (("train", "table.xlsx", "--target", "y"), "no such file: table.xlsx"),
        (("train", "table.csv"), "--target must name the column to predict: 'area', 'rooms'"),
        (("train", "table.csv", "--target", "prize"), "got 'prize'. Did you mean 'price'?"),
        (("train", "table.csv", "--target", "y"), "got 'y'. The columns are 'area', 'rooms'"),
        (
            ("train", "table.csv", "--target", "price", "--drop", "prize"),
            "--drop must name a column of the table; got 'prize'",
        ),
        (
            ("train", "table.csv", "--target", "price", "--drop", "area,rooms,town,garden,built,sold"),
            "no columns are left",
        ),
        (
            ("train", "table.csv", "--target", "price", "--weight", "town"),
            "--weight must name a column of numbers; 'town' holds",
        ),
        (
            ("train", "table.csv", "--target", "price", "--task", "classification", "--n-estimators", "x"),
            "--n-estimators",
        ),
        (("train", "table.csv", "--target", "price", "--n-estimators", "0"), "--n-estimators: must be"),
        (("train", "table.csv", "--target", "price", "--loss", "squares"), "loss"),
        (("train", "table.csv", "--target", "price", "--class-weight", "balanced"), "--class-weight does not apply"),
        (
            ("train", "table.csv", "--target", "town", "--missing-target", "error"),
            "the target 'town' is missing in",
        ),
        (("train", "table.csv", "--target", "sold", "--random-state", "-1"), "--random-state must be at least 0"),
        (("train", "table.csv", "--target", "sold", "--lerning-rate", "1"), "did you mean --learning-rate?"),
        (("train", "table.csv", "--target", "sold", "--column", "area:float"), "--column must be COL:TYPE with a type"),
        (
            ("train", "table.csv", "--target", "sold", "--column", "size:number"),
            "must name a column of the table; got 'size'",
        ),
        (("train", "table.csv", "--target", "sold", "--schema", "none.toml"), "cannot read the schema none.toml"),
        (("train", "table.csv", "--target", "sold", "--skip-lines", "-1"), "--skip-lines must be at least 0"),
        (("train", "table.csv", "--target", "built"), "must hold classes or numbers"),
        (("train", "table.csv", "--target", "price", "--test-fraction", "1"), "--test-fraction must be"),
        (("train", "table.csv", "--target", "price", "-o", "no/such/model"), "the folder no/such does not exist"),
        (("train", "one.csv", "--target", "y", "--task", "regression"), "too few to hold some out"),
        (("train", "same.csv", "--target", "y"), "at least two classes; got only 'x'"),
        (("train", "empty.csv", "--target", "y"), "has no rows"),
        (("train", "nothing.csv", "--target", "y"), "it is empty"),
        (("train", "ragged.csv", "--target", "y"), "must have 2 values, like the header; line 2 has 3"),
        (("predict", "none.fastens", "table.csv", "-o", "out.csv"), "no such file: none.fastens"),
        (("predict", "none.fastens", "table.csv", "-o", "no/out.csv"), "the folder no"),
        (
            ("predict", "none.fastens", "table.csv", "-o", "out.xlsx"),
            "cannot write out.xlsx: tables are written as CSV",
        ),
        (("predict", "none.fastens", "table.csv"), "required: -o"),
        (("evaluate", "table.csv", "table.csv"), "cannot read the model table.csv"),
    ],
)
def test_mistakes(run, houses, write_csv, arguments, message):
    write_csv(houses)
    write_csv("a,y\n1,2.5\n", "one.csv")
    write_csv("a,y\n1,x\n2,x\n", "same.csv")
    write_csv("a,y\n", "empty.csv")
    write_csv("", "nothing.csv")
    write_csv("a,y\n1,2,3\n", "ragged.csv")
    result = run(*arguments)
    assert result.code == 2
    assert result.out == "" or "table" in result.out
    assert result.err.startswith("fastens: ")
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is writable to root")
def test_a_folder_without_permission(run, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    result = run("train", "-o", "locked/model")
    assert (result.code, result.err) == (2, "fastens: cannot write locked/model: permission denied\n")


@pytest.mark.parametrize("library", ["rich", "pyarrow"])
def test_a_missing_library_names_the_extra(run, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    before = [name for name in sys.modules if name.startswith("fastens.cli.")]
    for name in [*sys.modules]:
        if name.startswith((f"{library}.", "fastens.cli.")):
            monkeypatch.delitem(sys.modules, name)
    result = run("train")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"fastens: the command line needs {library}: pip install 'fastens[cli]'\n"
    # What this imported would raise errors of another class than the modules that come back.
    for name in [name for name in sys.modules if name.startswith("fastens.cli.") and name not in before]:
        del sys.modules[name]


def test_help_and_version(capsys):
    from fastens.cli import main

    for argument, text in [("--help", "train"), ("--version", fastens.__version__)]:
        with pytest.raises(SystemExit) as stopped:
            main([argument])
        assert stopped.value.code == 0
        assert text in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "imported"), [(["predict", "--help"], {"predict"}), (["--help"], set())])
def test_a_command_imports_no_other(arguments, imported, monkeypatch, capsys):
    found = []
    monkeypatch.setattr(entry, "import_module", lambda name: found.append(name) or importlib.import_module(name))
    with pytest.raises(SystemExit):
        entry.main(arguments)
    assert {name.rpartition(".")[2] for name in found} == imported


def test_interrupted(run, monkeypatch):
    run("train", "--n-estimators", 1)

    def interrupt(options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("fastens.cli.train"), "read_task", interrupt)
    result = run("train")
    assert (result.code, result.err) == (130, "fastens: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="SIGTERM is POSIX")
def test_terminated(run, monkeypatch):
    def terminate(options: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(importlib.import_module("fastens.cli.train"), "read_task", terminate)
    result = run("train")
    assert (result.code, result.err) == (143, "fastens: terminated\n")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_warnings_are_a_line_each_once(run, monkeypatch):
    def warn(options):
        for _ in range(2):
            warnings.warn("the fit did not converge.\nSee the manual.", UserWarning, stacklevel=1)
        raise CommandError("no more")

    monkeypatch.setattr(importlib.import_module("fastens.cli.train"), "read_task", warn)
    assert run("train").err == "fastens: warning: the fit did not converge.\nfastens: no more\n"


@pytest.mark.slow
def test_defaults_that_differ_by_task_name_the_task(tmp_path):
    """AdaBoost grows stumps for classes, and deeper trees for numbers."""
    shown = " ".join(fastens_command("train", "--help", folder=tmp_path).stdout.split())
    assert "adaboost 1, adaboost for regression 3)" in shown
    assert "(default: adaboost no, adaboost for regression yes)" in shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--max-depth", "deep"), "argument --max-depth: must be a whole number of at least 1 or none or"),
        (("--min-samples-leaf", "few"), "or a number greater than 0 and less than 1; got 'few' (see fastens train"),
        (("--ngrams", "1-x"), "argument --ngrams: must be two integers, such as 1-2; got '1-x'"),
    ],
)
def test_values_of_no_number_name_the_rule(run, given, message):
    assert message in run("train", "table.csv", "--target", "y", *given).err


def test_rows_per_threshold_may_be_their_default(run):
    assert run("train", "--growth.rows-per-threshold", "auto", "--n-estimators", "2").code == 0
