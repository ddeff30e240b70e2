import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import fastens
from reference.exported import AVERAGED, BOOSTED, SEVERAL, classes_of, fitted, mixed, numbers, raw_of, rows_for
from reference.exported import with_positions as positions

COMPILERS = {name: [name] for name in ("gcc", "clang") if shutil.which(name)}
if find_spec("ziglang"):  # another Clang, which compiles to WebAssembly too
    COMPILERS["zig"] = [sys.executable, "-m", "ziglang", "cc"]
    if find_spec("wasmtime"):
        COMPILERS["wasm"] = [*COMPILERS["zig"], "--target=wasm32-wasi"]
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-unused-const-variable", "-pedantic"]
PROGRAM = """
#include "model.h"
#include <stdio.h>
int main(void)
{
    double x[model_N_COLUMNS], raw[model_N_RAW], predicted[model_N_PREDICTED];
    while (fread(x, sizeof *x, model_N_COLUMNS, stdin) == model_N_COLUMNS) {
        model_raw(x, raw);
        model_predict(x, predicted);
        fwrite(raw, sizeof *raw, model_N_RAW, stdout);
        fwrite(predicted, sizeof *predicted, model_N_PREDICTED, stdout);
    }
    return 0;
}
"""
CLASSES = """
#include "model.h"
#include <stdio.h>
int main(void)
{
    double x[model_N_COLUMNS];
    int found[N_TARGETS], k;
    while (fread(x, sizeof *x, model_N_COLUMNS, stdin) == model_N_COLUMNS) {
        model_class(x, found);
        for (k = 0; k < N_TARGETS; k++)
            puts(model_labels[found[k]]);
    }
    return 0;
}
"""


def wasm_output(path, stdin):
    """What a WebAssembly program writes to standard output."""
    import wasmtime

    store, given, written = wasmtime.Store(), path.with_suffix(".in"), path.with_suffix(".out")
    given.write_bytes(stdin)
    system = wasmtime.WasiConfig()
    system.stdin_file, system.stdout_file = str(given), str(written)
    store.set_wasi(system)
    linker = wasmtime.Linker(store.engine)
    linker.define_wasi()
    program = linker.instantiate(store, wasmtime.Module.from_file(store.engine, str(path)))
    # A main that returns 0 may leave by an exit of code 0.
    with suppress(wasmtime.ExitTrap):
        program.exports(store)["_start"](store)
    return written.read_bytes()


@pytest.fixture(params=list(COMPILERS) or [pytest.param("", marks=pytest.mark.skip("there is no C compiler"))])
def run(request, tmp_path):
    def compiled(header, program, stdin=b"", *more):
        (tmp_path / "model.h").write_text(header, encoding="utf-8")
        (tmp_path / "main.c").write_text(program, encoding="utf-8")
        command = [*COMPILERS[request.param], *STRICT, "-Werror", *more, "main.c", "-o", "main", "-lm"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=500)
        if request.param == "wasm":
            return wasm_output(tmp_path / "main", stdin)
        return subprocess.run([tmp_path / "main"], input=stdin, capture_output=True, check=True, timeout=100).stdout

    return compiled


def both(run, model, X):
    """Raw predictions and predictions of the compiled header."""
    n_raw = raw_of(model, X[:1]).shape[1]
    bytes_out = run(model.export(format="c"), PROGRAM, positions(model, X).astype(np.float64).tobytes())
    return np.split(np.frombuffer(bytes_out).reshape(len(X), -1), [n_raw], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOOSTED, *SEVERAL, *AVERAGED])
def test_same_predictions(run, name):
    model = fitted(name)
    X = rows_for(model)
    raw, predicted = both(run, model, X)
    assert np.array_equal(raw, raw_of(model, X))
    expected = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(predicted, expected.reshape(len(X), -1), rtol=1e-13, atol=1e-15)


def test_missing_values_that_are_a_category_of_their_own(run):
    X, y = mixed()
    options = fastens.Categories(missing="category")
    model = fastens.GradientBoostingRegressor(n_estimators=12, categories=options, random_state=0)
    model.fit(X, y + 9 * X["few"].isna())
    rows = rows_for(model)
    assert np.array_equal(both(run, model, rows)[0], raw_of(model, rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        fastens.GradientBoostingRegressor(loss="quantile", quantile=[0.4, 0.5, 0.6], n_estimators=5),
        fastens.GradientBoostingRegressor(loss="gamma", n_estimators=5),
        fastens.GradientBoostingRegressor(loss="cross_entropy", n_estimators=5),
        fastens.AdaBoostClassifier(algorithm="gentle", n_estimators=9),
    ],
)
def test_links(run, model):
    X, y = numbers()
    of_classes = isinstance(model, fastens.AdaBoostClassifier)
    model.fit(X, classes_of(y, 4) if of_classes else 1 / (1 + np.exp(-y)))
    expected = model.predict_proba(X) if of_classes else model.predict(X)
    np.testing.assert_allclose(both(run, model, X)[1], expected.reshape(len(X), -1), rtol=1e-11)


@pytest.mark.slow
def test_outliers(run):
    model = fastens.IsolationForest(n_estimators=20, contamination=0.1, random_state=0).fit(numbers()[0])
    X = rows_for(model)
    np.testing.assert_allclose(both(run, model, X)[1][:, 0], model.decision_function(X), atol=1e-14)


def test_labels(run):
    X, y = numbers()
    odd = np.array(['say "ö?"', "back\\slash", "percent %d"])
    target = np.column_stack([odd[(y > 0) + (y > 1) * 1], classes_of(y)])
    model = fastens.RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0).fit(X, target)
    program = CLASSES.replace("N_TARGETS", "2")
    found = run(model.export(format="c"), program, X.tobytes()).decode().splitlines()
    assert np.array_equal(np.array(found).reshape(-1, 2), model.predict(X))


def test_categories_by_value(run):
    X = pd.DataFrame({"text": pd.Categorical(["a", "it's é", "model"] * 9), "number": pd.Categorical([2, 7, 9] * 9)})
    model = fastens.DecisionTreeRegressor().fit(X, np.arange(27.0))
    program = r"""
#include "model.h"
#include <stdio.h>
int main(void)
{
    printf("%d %d %d\n", model_category(0, "it's \303\251"), model_category(0, "model"), model_category(0, "A"));
    printf("%d %d\n", model_category_of_number(1, 7), model_category_of_number(1, 7.5));
    return 0;
}
"""
    assert run(model.export(format="c"), program).decode() == "1 2 -1\n1 -1\n"


def test_names_are_chosen():
    header = fitted("regression").export(format="c", name="price")
    assert "static inline void price_predict(const double *x, double *predicted)" in header
    with pytest.raises(ValueError, match="name must be a C identifier; got '1st'"):
        fitted("regression").export(format="c", name="1st")
