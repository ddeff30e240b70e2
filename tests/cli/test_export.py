import numpy as np
import pytest

import fastens


@pytest.mark.parametrize("format", ["lightgbm", "sql", "c"])
def test_a_model_is_written(run, houses, write_csv, tmp_path, format):  # noqa: A002
    path = str(write_csv(houses, "houses.csv"))
    assert run("train", path, "--target", "price", "--n-estimators", 5).code == 0
    result = run("export", "model.fastens", "-o", "out", "--format", format)
    assert (result.code, result.out) == (0, "")
    assert f"GradientBoostingRegressor written to out as {format}" in result.err
    assert (tmp_path / "out").read_text() == fastens.load(tmp_path / "model.fastens").export(format=format)


def test_a_model_is_not_written_over(run, tmp_path):
    path = tmp_path / "model.fastens"
    fastens.DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0]).save(path)
    before = path.read_bytes()
    result = run("export", "model.fastens", "-o", "model.fastens", "--format", "sql")
    assert (result.code, path.read_bytes()) == (2, before)
    assert "--overwrite" in result.err
    assert run("export", "model.fastens", "-o", "model.fastens", "--format", "sql", "--overwrite").code == 0
    assert path.read_text().startswith("SELECT")
    table = tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n")
    fastens.DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0]).save(path)
    result = run("export", "model.fastens", "-o", "table.csv", "--format", "lightgbm")
    assert (result.code, table.read_text()) == (2, "a,b\n1,2\n")
    assert "will not overwrite table.csv, which has the file name of a table" in result.err


def test_errors_are_one_line(run, tmp_path):
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    fastens.GaussianNB().fit(X, y).save(tmp_path / "bayes.fastens")
    fastens.AdaBoostRegressor(n_estimators=2).fit(X, y).save(tmp_path / "median.fastens")
    for name, message in (
        ("bayes", "GaussianNB is not a tree model"),
        ("median", "format='sql' cannot represent the weighted median of trees"),
        ("none", "no such file"),
    ):
        result = run("export", f"{name}.fastens", "-o", "out", "--format", "sql")
        assert result.code == 2
        assert message in result.err
        assert result.err.count("\n") == 1
