"""What is printed, on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from fastens.cli.report.progress import training_progress
from fastens.cli.report.report import Entry, Report, one_line, score_text, score_with_error


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("accuracy", 0.98231, "98.23%"),
        ("AUC", 0.5, "0.5000"),
        ("R²", -1e-6, "0.0000"),
        ("RMSE", 123456.7, "123,457"),
        ("RMSE", 1234.567, "1234.6"),
        ("log loss", 0.25, "0.25000"),
        ("AUC", float("nan"), "-"),
    ],
)
def test_scores_have_the_digits_they_are_worth(name, value, text):
    assert score_text(name, value) == text


def test_names_are_not_markup(capsys):
    report = Report()
    report.facts([("[red]a[/red]", ":smile:")])
    report.importances([("[bold]", 0.6), ("b" * 60, 0.4), ("nothing", 0.0)])
    out = capsys.readouterr().out
    assert "[red]a[/red]" in out
    assert ":smile:" in out
    assert "[bold]" in out
    assert "…" in out
    assert "nothing" not in out


def test_names_do_not_steer_a_terminal(capsys):
    report = Report()
    report.facts([("\x1b[31mred", "\x1b]0;title\x07")])
    report.line("\0 and \x9b1m")
    report.out.print(one_line("two\nlines"))
    printed = "".join(capsys.readouterr())
    assert not set(printed) & {"\x1b", "\x07", "\0", "\x9b"}
    for text in (r"\x1b[31mred", r"\x1b]0;title\x07", r"\x00 and \x9b1m", r"two\nlines"):
        assert text in printed


def test_no_importances_without_splits(capsys):
    Report().importances([("a", 0.0)])
    assert capsys.readouterr().out == ""


def test_progress_shows_losses_on_a_terminal():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with training_progress(console) as on_round:
        on_round(0, 2, 0.5, None)
        on_round(1, 2, 0.25, 0.75)
    assert "2/2" in screen.getvalue()
    assert "loss 0.25000  validation 0.75000" in screen.getvalue()
    assert "left" in screen.getvalue()


def test_progress_is_silent_elsewhere():
    screen = io.StringIO()
    with training_progress(Console(file=screen)) as on_round:
        on_round(0, 1, 0.5, None)
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("accuracy", 0.97123, 0.0081, "97.1% ± 0.8%"),
        ("log loss", 0.104812, 0.0281, "0.105 ± 0.028"),
        ("RMSE", 31003.4, 812.0, "31,003 ± 812"),
        ("AUC", 0.5, 0.0, "0.5000 ± 0.0000"),
        ("AUC", float("nan"), 0.1, "-"),
        ("RMSE", -0.02, 1.14, "0.0 ± 1.1"),
        ("log loss", 0.667021110783824, 4.5e-17, "0.667021 ± 0.000000"),
    ],
)
def test_standard_errors_have_two_digits(name, value, error, text):
    assert score_with_error(name, value, error) == text


@pytest.mark.parametrize(("width", "header"), [(120, "R² fit a row size"), (80, "R² fit"), (60, "MAE"), (20, "RMSE")])
def test_numbers_of_a_leaderboard_are_not_cut(monkeypatch, width, header):
    scores = [{"RMSE": 1161.4, "MAE": 944.1, "R²": -0.1003}, {"RMSE": 1163.3, "MAE": 974.2, "R²": -0.1006}]
    report = Report()
    report.out = Console(file=io.StringIO(), width=width)
    costs = {"fit_seconds": [0.0171], "predict_seconds": [1e-4], "n_predicted": 30, "n_bytes": 10_240}
    report.leaderboard(
        "Leaderboard", [Entry("weighted-majority", scores, **costs), Entry("constant prediction", scores)]
    )
    printed = report.out.file.getvalue()
    lines = printed.splitlines()
    assert " ".join(lines[2].split()).endswith(header)
    assert not any(char == "…" for line in lines for char in line[17:])
    assert ("a wider terminal also shows" in " ".join(printed.split())) == (width < 120)
