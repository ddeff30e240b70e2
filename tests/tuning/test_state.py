"""The file of a search, also one whose last line was cut."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fastens.tuning.tune import SearchFile, SearchStateError, Trial, fingerprint

TRIAL = Trial(0, "boosting", {"learning_rate": 0.1}, [0.5, 0.7], [10, 12], 1.5, True)


def test_trials_are_kept(tmp_path):
    path = tmp_path / "s.jsonl"
    SearchFile(path, "a").append(TRIAL)
    found = SearchFile(path, "a")
    assert found.trials == [TRIAL]
    found.append(Trial(1, "forest", {}))
    assert len(SearchFile(path, "a").trials) == 2


@pytest.mark.slow
def test_a_line_that_was_cut_is_left_out(tmp_path):
    path = tmp_path / "s.jsonl"
    SearchFile(path, "a").append(TRIAL)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        if n == 0 or n > whole.index(b"\n"):
            assert SearchFile(path, "a").trials == []
            assert json.loads(path.read_text())["of"] == "a"


def test_a_search_without_trials_stands_in_no_other_ones_way(tmp_path):
    path = tmp_path / "s.jsonl"
    SearchFile(path, "a")
    SearchFile(path, "b").append(TRIAL)
    assert SearchFile(path, "b").trials == [TRIAL]


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "s.jsonl"
    SearchFile(path, "a").append(TRIAL)
    with pytest.raises(SearchStateError, match=r"comes from another search\. Choose another file, or remove it\."):
        SearchFile(path, "b")
    path.write_text(path.read_text() + '{"no": 1}\n')
    with pytest.raises(SearchStateError, match=r"has a line that is not a trial\."):
        SearchFile(path, "a")
    for content in ["a,b\n1,2\n", "[1]\n", "3\n", "no end"]:
        path.write_text(content)
        with pytest.raises(SearchStateError, match="checkpoint must be a new file or the file of an earlier search"):
            SearchFile(path, "a")
        assert path.read_text() == content


def test_fingerprints():
    X, y = np.zeros((3, 2)), np.array(["a", "b", "a"], dtype=object)
    found = fingerprint(X, y, None, {"n_folds": 5})
    assert found == fingerprint(X + 1, y.copy(), None, {"n_folds": 5})
    others = [
        fingerprint(X, y[::-1][[0, 2, 1]], None, {"n_folds": 5}),
        fingerprint(X, y, np.ones(3), {"n_folds": 5}),
        fingerprint(X, y, None, {"n_folds": 4}),
    ]
    assert found not in others


def test_columns_that_are_read_otherwise_make_another_search():
    y = np.arange(3.0)
    tables = [
        pa.table({"a": pa.array(values, type_)})
        for values, type_ in ([[1, 2, 3], pa.int64()], [[1, None, 3], pa.int64()], [["1", "2", "3"], pa.string()])
    ]
    assert len({fingerprint(table, y, None, {}) for table in [*tables, pa.table({"a": [1, 2, 3]})]}) == 3
    frames = [pd.DataFrame({"a": [1, 2, 3]}), pd.DataFrame({"a": ["1", "2", "3"]}), pd.DataFrame({"a": [3, 2, 1]})]
    assert len({fingerprint(frame, y, None, {}) for frame in frames}) == 2


def test_means():
    assert TRIAL.loss == pytest.approx(0.6)
    assert TRIAL.standard_error == pytest.approx(0.1)
    assert Trial(0, "forest", {}).loss == float("inf")
    assert np.isnan(Trial(0, "forest", {}, [0.5]).standard_error)  # of one fold nothing is known
