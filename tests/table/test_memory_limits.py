"""Memory limits: estimates hold, codes in files make the same models, and no files are left."""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import fastens as fe
from fastens.engine.bins.binned import TemporaryFiles
from fastens.params.options import EarlyStopping
from fastens.table import memory
from fastens.table.memory import shown_bytes
from fastens.table.source import in_bytes
from reference import memory_peaks
from reference.children import run_child

RNG = np.random.default_rng(5)
X = RNG.random((3000, 6)).round(2).astype(np.float32)
X[::13, 2] = np.nan
Y = X[:, 0] + X[:, 1] * X[:, 3] + RNG.normal(size=len(X)) * 0.1
LABELS = np.digitize(Y, [0.5, 0.9])
OF_TABLE = {"kind": "array", "value_bytes": 4}
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets limits of Linux")


def in_files(model, table, *, n_outputs=1, n_targets=1, folder=None):
    """The table with a ceiling under which codes go to files."""
    needs = fe.estimate_memory(model, *table.shape, n_outputs=n_outputs, n_targets=n_targets, **OF_TABLE)
    assert needs.in_files < needs.in_memory
    return fe.TableSource(table, max_memory=needs.in_memory - 1, spill_dir=folder)


@pytest.fixture
def placed(monkeypatch):
    """The shapes of what was put into files."""
    shapes, zeros = [], TemporaryFiles.zeros

    def noted(self, shape, dtype):
        shapes.append(shape)
        return zeros(self, shape, dtype)

    monkeypatch.setattr(TemporaryFiles, "zeros", noted)
    for name in ("_FIXED", "_PAGES", "_ARROW"):
        monkeypatch.setattr(memory, name, 0)
    monkeypatch.setattr(memory, "COPIES", dict.fromkeys(("files", "frame", "array"), (0, 0)))
    monkeypatch.setattr(memory, "default_sample", lambda *_: 0)
    return shapes


MODELS = [
    (fe.GradientBoostingRegressor, {"subsample": 0.5, "early_stopping": EarlyStopping(refit=True)}),
    (fe.GradientBoostingRegressor, {"loss": "absolute_error", "max_bins": 600}),
    (fe.GradientBoostingRegressor, {"boosting": "dart", "sampling": "goss"}),
    (fe.GradientBoostingClassifier, {"early_stopping": True, "n_jobs": 2}),
    (fe.RandomForestClassifier, {"oob_score": True, "max_depth": 6, "n_jobs": 2}),
    (fe.ExtraTreesRegressor, {"bootstrap": True}),
    (fe.DecisionTreeRegressor, {"max_depth": 5}),
    (fe.AdaBoostClassifier, {"max_depth": 2}),
    (fe.AdaBoostClassifier, {"max_depth": 1}),
    (fe.AdaBoostRegressor, {}),
    (fe.IsolationForest, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_codes_in_files_make_the_same_model(kind, options, placed, tmp_path):
    known = kind().get_params()
    given = {"n_estimators": 4, "random_state": 0} | options
    given = {name: value for name, value in given.items() if name in known}
    is_classifier = "Classifier" in kind.__name__
    y = LABELS if is_classifier else Y
    limited = in_files(kind(**given), X, n_outputs=3 if is_classifier else 1, folder=tmp_path)
    whole, model = kind(**given).fit(X, y), kind(**given).fit(limited, y)
    assert any(shape[0] == X.shape[1] for shape in placed), placed
    assert os.listdir(tmp_path) == []
    for name, array in whole._ensemble.to_arrays().items():
        np.testing.assert_array_equal(model._ensemble.to_arrays()[name], array, err_msg=name)


def test_several_targets_in_files(placed):
    y, options = np.column_stack([Y, -(Y**2)]), {"n_estimators": 3}
    limited = in_files(fe.GradientBoostingRegressor(**options), X, n_outputs=2, n_targets=2)
    whole = fe.GradientBoostingRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(fe.GradientBoostingRegressor(**options).fit(limited, y).predict(X), whole.predict(X))
    assert placed


def test_members_keep_to_the_limits_of_their_table(placed):
    members = [("a", fe.GradientBoostingRegressor(n_estimators=2))]
    whole = fe.VotingRegressor(members).fit(X, Y)
    limited = fe.TableSource(X, max_memory=fe.estimate_memory(whole, *X.shape, **OF_TABLE).in_files)
    np.testing.assert_array_equal(fe.VotingRegressor(members).fit(limited, Y).predict(X), whole.predict(X))
    assert placed


def test_a_fit_that_goes_on_keeps_to_the_ceiling(placed):
    whole = fe.RandomTreesEmbedding(n_estimators=4, random_state=0).fit(X)
    model = fe.RandomTreesEmbedding(n_estimators=2, warm_start=True, random_state=0).fit(X)
    model.set_params(n_estimators=4)
    with pytest.raises(ValueError, match="max_memory must be at least"):
        model.fit(fe.TableSource(X, max_memory=1000))
    model.fit(in_files(model, X))
    assert placed
    np.testing.assert_array_equal(model.transform(X).toarray(), whole.transform(X).toarray())


def test_frames_and_files_with_a_ceiling(placed, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(word=RNG.choice(["x", "y", None], len(X)), y=Y)
    frame.to_parquet(tmp_path / "t.parquet")
    whole = fe.GradientBoostingRegressor(n_estimators=3).fit(frame[["b", "a", "word"]], Y)
    for table in (frame, tmp_path / "t.parquet"):
        source = fe.TableSource(table, columns=["b", "a", "word", "y"], max_memory="1GB")
        model = fe.GradientBoostingRegressor(n_estimators=3).fit(source, "y")
        np.testing.assert_array_equal(model.predict(frame), whole.predict(frame))
    assert placed == []  # there is room


def test_the_least_that_is_named_is_enough():
    with pytest.raises(ValueError, match="max_memory must be at least") as caught:
        fe.GradientBoostingRegressor(n_estimators=2).fit(fe.TableSource(X, max_memory="1MB"), Y)
    least = re.search(r"at least (\S+) for", str(caught.value))[1]
    fe.GradientBoostingRegressor(n_estimators=2).fit(fe.TableSource(X, max_memory=least), Y)


def test_too_low_a_ceiling_is_found_before_rows_are_read():
    n_read = []

    def rows():
        import pyarrow as pa

        table = pa.table({name: X[:, i] for i, name in enumerate("abcdef")} | {"y": Y})

        def batches():
            for batch in table.to_batches():
                n_read.append(batch.num_columns)
                yield batch

        return pa.RecordBatchReader.from_batches(table.schema, batches())

    with pytest.raises(ValueError, match="max_memory must be at least"):
        fe.GradientBoostingRegressor().fit(fe.TableSource(rows, max_memory="1MB"), "y")
    assert len(n_read) <= 1  # to count them


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_after_a_fault(fault, placed, tmp_path):
    seen = []

    def stop(env):
        seen.append(os.listdir(tmp_path))
        raise fault

    model = fe.GradientBoostingRegressor(n_estimators=3, callbacks=[stop])
    with pytest.raises(fault):
        model.fit(in_files(model, X, folder=tmp_path), Y)
    assert placed
    assert seen == [[]]
    assert os.listdir(tmp_path) == []


def test_sizes():
    assert in_bytes("2 GiB") == 2 << 30
    assert in_bytes("1.5mb") == 1_500_000
    assert shown_bytes(2**33) == "8.59GB"
    for wrong in ("much", "-1GB", 0, -5, True, None, 1.5):
        with pytest.raises(ValueError, match="max_memory must be a positive number of bytes"):
            in_bytes(wrong)


def test_arguments_that_do_not_fit(tmp_path):
    with pytest.raises(ValueError, match=r"table must be a single table, not a list of tables\. Concatenate them"):
        fe.TableSource([pd.DataFrame({"a": [1]})])
    with pytest.raises(ValueError, match=r"table must be a single table, not a list of tables\. Concatenate them"):
        fe.TableSource(pytest.importorskip("pyarrow").table({"a": [1]}).to_batches())
    with pytest.raises(ValueError, match="spill_dir must be a folder that exists"):
        fe.TableSource(X, max_memory=10, spill_dir=tmp_path / "none")
    with pytest.raises(ValueError, match="columns must be None for a sparse"):
        fe.GradientBoostingRegressor().fit(fe.TableSource(sparse.csr_matrix(X), columns=["a"]), Y)
    for model in (fe.VotingClassifier([("lines", LogisticRegression())]), fe.AdaBoostClassifier(LogisticRegression())):
        with pytest.raises(ValueError, match="max_memory must be None for a LogisticRegression as base estimator"):
            model.fit(fe.TableSource(np.nan_to_num(X), max_memory="1GB"), LABELS)


def test_estimates_that_are_not_possible():
    boosting, forest = fe.GradientBoostingRegressor(), fe.RandomForestClassifier()
    for given, message in (
        ((boosting, 0, 2), "n_rows must be a number at least 1; got 0"),
        ((boosting, 10, "2"), "n_columns must be a number at least 1; got '2'"),
        (
            (LogisticRegression(), 10, 2),
            r"estimator must be a tree model of fastens; got LogisticRegression\(\)",
        ),
        ((fe.GradientBoostingRegressor, 10, 2), "estimator must be a tree model of fastens; got <class"),
        ((fe.GaussianNB(), 10, 2), r"estimator must be a tree model of fastens; got GaussianNB\(\)"),
        ((fe.VotingClassifier([("a", fe.GaussianNB())]), 10, 2), "estimator must be a tree model of fastens"),
        ((forest, 10, 2), "estimator must limit its trees by max_depth or max_leaf_nodes for classification"),
        ((fe.BaggingClassifier(), 10, 2), "estimator must limit its trees by max_depth or max_leaf_nodes"),
        ((fe.StackingClassifier([("a", forest)]), 10, 2), "estimator must limit its trees by max_depth or"),
    ):
        with pytest.raises(ValueError, match=message):
            fe.estimate_memory(*given)
    for given, message in (
        ({"kind": ["array"]}, r"kind must be one of 'files', 'frame', 'array'; got \['array'\]"),
        ({"weighted": "no"}, "weighted must be True or False; got 'no'"),
        ({"value_bytes": None}, "value_bytes must be a number greater than 0; got None"),
    ):
        with pytest.raises(ValueError, match=message):
            fe.estimate_memory(boosting, 10, 2, **given)


def test_rows_to_validate_on_count():
    model, table = fe.GradientBoostingRegressor(n_estimators=2, early_stopping=True), X[:1000]
    alone = fe.estimate_memory(model, *table.shape, **OF_TABLE)
    needs = fe.estimate_memory(model, *table.shape, n_validation=len(X), **OF_TABLE)
    assert needs.in_files - alone.in_files >= X.size  # their codes are in memory
    with pytest.raises(ValueError, match=f"at least {re.escape(shown_bytes(needs.in_files))}"):
        model.fit(fe.TableSource(table, max_memory=alone.in_files), Y[:1000], X_val=X, y_val=Y)
    model.fit(fe.TableSource(table, max_memory=needs.in_files), Y[:1000], X_val=X, y_val=Y)
    assert len(model.evals_result_["validation"]["loss"])


@pytest.mark.parametrize(
    ("options", "n_outputs"), [({"loss": "student_t"}, 3), ({"loss": "quantile", "quantile": [0.1, 0.5, 0.9]}, 3)]
)
def test_raw_predictions_of_the_loss_count(options, n_outputs):
    model = fe.GradientBoostingRegressor(n_estimators=2, **options)
    needs = fe.estimate_memory(model, *X.shape, **OF_TABLE)
    assert needs == fe.estimate_memory(model, *X.shape, n_outputs=n_outputs, **OF_TABLE)
    assert (
        needs.in_memory
        > fe.estimate_memory(fe.GradientBoostingRegressor(n_estimators=2), *X.shape, **OF_TABLE).in_memory
    )
    with pytest.raises(ValueError, match="max_memory must be at least"):
        model.fit(fe.TableSource(X, max_memory=needs.in_files - 1), Y)
    model.fit(fe.TableSource(X, max_memory=needs.in_files), Y)


def test_the_classes_of_several_targets_count():
    y, model = np.column_stack([LABELS, LABELS]), fe.RandomForestClassifier(2, max_depth=3)
    needs = fe.estimate_memory(model, *X.shape, n_outputs=6, n_targets=2, **OF_TABLE)
    with pytest.raises(ValueError, match="max_memory must be at least"):
        model.fit(fe.TableSource(X, max_memory=needs.in_files - 1), y)
    model.fit(fe.TableSource(X, max_memory=needs.in_files), y)


def test_a_table_gives_its_shape():
    model = fe.GradientBoostingRegressor(n_estimators=2)
    assert fe.estimate_memory(model, X) == fe.estimate_memory(model, *X.shape, kind="array")
    assert fe.estimate_memory(model, pd.DataFrame(X)) == fe.estimate_memory(model, *X.shape, kind="frame")
    stored = sparse.csr_matrix(np.nan_to_num(X) * (X > 0.8))
    assert fe.estimate_memory(model, stored) == fe.estimate_memory(model, *X.shape, kind="array", n_stored=stored.nnz)


@pytest.mark.parametrize("density", [0.02, 0.5])  # of the second all codes are stored
def test_a_ceiling_for_a_sparse_table(density):
    table = sparse.random(500, 80, density=density, format="csc", random_state=0)
    y = np.ravel(table.sum(axis=1))
    for model in (fe.GradientBoostingRegressor(n_estimators=2), fe.RandomForestRegressor(2, random_state=0)):
        needs = fe.estimate_memory(model, *table.shape, n_stored=table.nnz)
        with pytest.raises(ValueError, match=r"max_memory must be at least \S+ for \w+ on this table; got"):
            model.fit(fe.TableSource(table, max_memory=needs.in_files - 1), y)
        limited = model.fit(fe.TableSource(table, max_memory=needs.in_files), y).predict(table)
        np.testing.assert_array_equal(limited, model.fit(table, y).predict(table))


# In processes of their own --------------------------------------------------


def in_child(code, folder, n_rows=500_000):
    done = run_child(f"N_ROWS = {n_rows}\n" + PRELUDE + textwrap.dedent(code), folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


PRELUDE = """
import os
import resource
import numpy as np
import fastens as fe

# No file object: on busy cores, Python 3.13t takes a fifth of a second to close one.
STATUS = os.open("/proc/self/status", os.O_RDONLY)

def status(field):
    lines = os.pread(STATUS, 1 << 14, 0).decode().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

rng = np.random.default_rng(0)
X = rng.random((N_ROWS, 20), dtype=np.float32)
y = X[:, 0] + X[:, 1] * X[:, 2]
model = fe.GradientBoostingRegressor(n_estimators=2, n_jobs=1)
model.fit(fe.TableSource(X[:3000], max_memory="1GB"), y[:3000])
needs = fe.estimate_memory(model, *X.shape, kind='array', value_bytes=4)
"""


@pytest.mark.slow
@linux_only
def test_a_fit_keeps_to_the_limit_of_its_address_space(tmp_path):
    limited = """
    limit = status("VmSize") + needs.in_memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    model.fit(fe.TableSource(X, max_memory=needs.in_memory), y)
    print(model.n_estimators_)
    """
    assert in_child(limited, tmp_path) == ["2"]


@pytest.mark.slow
@linux_only
def test_a_fit_with_codes_in_files_keeps_to_the_limit_of_its_data(tmp_path):
    """Pages of files are the system's, and do not count."""
    limited = """
    whole = model.fit(X, y).predict(X[:100])
    limit = status("VmData") + needs.in_files
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    model.fit(fe.TableSource(X, max_memory=needs.in_files), y)
    print((model.predict(X[:100]) == whole).all(), needs.in_files < needs.in_memory)
    """
    assert in_child(limited, tmp_path, n_rows=1_500_000) == ["True", "True"]


def test_a_hundred_million_rows_fit_under_4_gigabytes():
    """As the page on large tables has it."""
    needs = fe.estimate_memory(fe.GradientBoostingRegressor(), 100_000_000, 28)
    assert str(needs) == "7.26GB in memory, or 3.79GB and 6GB of disk"
    assert needs.in_files < in_bytes("4GB")


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize("case", memory_peaks.CASES)
def test_estimates_are_within_half_of_the_peak(case):
    peak, estimate = memory_peaks.measured(case, 200_000, 60)
    assert peak / 1.5 <= estimate <= 1.5 * peak + 50e6  # the last term is for fits below 200 MB


@pytest.mark.slow
@linux_only
def test_a_full_disk_is_named(tmp_path):
    full = """
    model = fe.GradientBoostingRegressor(n_estimators=2, loss="absolute_error", early_stopping=True, subsample=0.5)
    needs = fe.estimate_memory(model, *X.shape, kind='array', value_bytes=4)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        model.fit(fe.TableSource(X, max_memory=needs.in_memory - 1, spill_dir="."), y)
    except OSError as error:
        print(str(error))
    """
    found = " ".join(in_child(full, tmp_path))
    assert re.search("spill_dir or path must be on a disk with", found)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize(
    "model",
    [
        "fe.GradientBoostingRegressor(n_estimators=3, n_jobs=2, max_leaf_nodes=8)",
        "fe.GradientBoostingRegressor(n_estimators=2, min_samples_leaf=4000, subsample=0.5, early_stopping=True)",
        "fe.RandomForestRegressor(n_estimators=2, min_samples_leaf=5000, n_jobs=2)",
    ],
)
def test_only_a_window_of_file_codes_is_in_memory(model, tmp_path):
    """Under a higher ceiling more of them; all the time, not only at the end of a round."""
    watched = f"""
    import threading, time
    from fastens.table import memory

    # Learning the bins takes more than anything else.
    memory._FIXED, memory.COPIES, memory.default_sample = 0, dict.fromkeys(memory.COPIES, (0, 0)), lambda *_: 0

    def fit(ceiling):
        stop, most = threading.Event(), [0]
        before = status("RssFile")
        def watch():
            while not stop.is_set():
                most[0] = max(most[0], status("RssFile") - before)
                time.sleep(0.001)
        watcher = threading.Thread(target=watch)
        watcher.start()
        model.fit(fe.TableSource(X, max_memory=ceiling, spill_dir="."), y)
        stop.set()
        watcher.join()
        return most[0]

    model = {model}
    model.fit(fe.TableSource(X[:3000], max_memory="1GB"), y[:3000])
    needs = fe.estimate_memory(model, *X.shape, kind='array', value_bytes=4)
    print(fit(needs.in_files), fit(needs.in_memory - 1), N_ROWS + min(1 << 25, needs.disk // 4), needs.disk)
    """
    low, high, window, disk = map(int, in_child(watched, tmp_path, n_rows=300_000))
    assert 0 < low <= 1.2 * window + (3 << 20) < 0.6 * disk  # with pages of libraries that the fit runs first
    assert low < high


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize(
    "model", ["fe.GradientBoostingRegressor(n_estimators=2, n_jobs=1)", "fe.RandomForestRegressor(2, n_jobs=1)"]
)
def test_a_fit_of_a_sparse_table_keeps_to_the_limit_of_its_address_space(model, tmp_path):
    limited = f"""
    from scipy import sparse

    model = {model}
    rows, columns = rng.integers(0, 2000, 100_000), rng.integers(0, 15_000, 100_000)
    table = sparse.csr_matrix((rng.random(100_000), (rows, columns)), (2000, 15_000))
    y = table.sum(axis=1).A1
    model.fit(table[:100], y[:100])
    needs = fe.estimate_memory(model, *table.shape, n_stored=table.nnz)
    limit = status("VmSize") + needs.in_memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    model.fit(fe.TableSource(table, max_memory=needs.in_memory), y)
    print(needs.in_memory)
    """
    assert int(in_child(limited, tmp_path, n_rows=3000)[0]) < 2 * 2000 * 15_000  # two bytes for each value


# All estimators --------------------------------------------------

N_ROWS = 300
COUNTS = pd.DataFrame(RNG.integers(0, 4, (N_ROWS, 4)).astype(float), columns=list("abcd"))
FLAGS = (COUNTS["a"] + (COUNTS["b"] > 1) > 2).astype(int).to_numpy()
TIMES = np.array(list(zip(FLAGS == 1, COUNTS["c"] + 1, strict=True)), dtype=[("event", bool), ("time", float)])


def boosting():
    return fe.GradientBoostingClassifier(n_estimators=3)


def members(kind):
    return kind([("trees", boosting()), ("counts", fe.GaussianNB())])


MADE = {
    "VotingRegressor": lambda kind: kind([("trees", fe.GradientBoostingRegressor(n_estimators=3))]),
    "StackingRegressor": lambda kind: kind([("trees", fe.GradientBoostingRegressor(n_estimators=3))]),
    "BaggingClassifier": lambda kind: kind(fe.GaussianNB(), n_estimators=3),
    "CascadeForestClassifier": lambda kind: kind([("trees", fe.ExtraTreesClassifier(3))], max_layers=1),
    "CascadeForestRegressor": lambda kind: kind([("trees", fe.ExtraTreesRegressor(3))], max_layers=1),
    "ConformalClassifier": lambda kind: kind(boosting()),
    "AdaBoostClassifier": lambda kind: kind(fe.DecisionTreeClassifier(max_depth=2), n_estimators=3),
} | dict.fromkeys(
    (
        "VotingClassifier",
        "StackingClassifier",
        "WeightedMajorityClassifier",
        "MAPClassifier",
        "MaximumLikelihoodClassifier",
    )
    + ("BayesOptimalClassifier", "GibbsClassifier"),
    members,
)
NAMES = [
    name
    for name in fe.__all__
    if inspect.isclass(kind := getattr(fe, name)) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")
]


def made(name):
    kind = getattr(fe, name)
    model = MADE[name](kind) if name in MADE else kind()
    drawn = {"random_state": 0} if "random_state" in model.get_params() else {}
    return model.set_params(**drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "FiniteHypothesisLearner"])
def test_the_least_that_is_named_is_enough_and_makes_the_same_model(name):
    if name == "TextClassifier":
        table = pd.DataFrame({"text": np.where(FLAGS, "some words here", "words of another kind")})
    elif name == "ExactTreeAverageClassifier":
        table = COUNTS > 1
    else:
        table = COUNTS
    y = TIMES if name == "GradientBoostingSurvival" else FLAGS
    given = {"qid": np.arange(N_ROWS) // 10} if name == "GradientBoostingRanker" else {}
    limited, least = None, "1KB"
    for _ in range(3):  # the second time, the parts of dates are known
        try:
            limited = made(name).fit(fe.TableSource(table, max_memory=least), y, **given)
        except ValueError as error:
            least = re.search(r"^max_memory must be at least (\S+) for", str(error))[1]
    assert least != "1KB"
    whole = made(name).fit(table, y, **given)
    answer = "predict" if hasattr(whole, "predict") else "transform"
    found, expected = (getattr(each, answer)(table) for each in (limited, whole))
    for each in (found, expected):
        assert each.shape[0] == N_ROWS
    assert abs(found - expected).max() == 0
