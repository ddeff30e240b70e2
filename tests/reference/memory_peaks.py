"""Peak memory of fits in new processes, next to their estimates.

    python tests/reference/memory_peaks.py [ROWS COLUMNS]

prints the peak above the input and the estimate, in MB, and their ratio for each case.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from textwrap import dedent

if __name__ == "__main__":
    sys.path[:0] = ["tests", "."]

from reference.children import run_child

_BOOSTED = "fe.GradientBoostingRegressor(n_estimators=3)"
_FOREST = "fe.RandomForestRegressor(3, max_depth=10)"
CASES = [
    "fe.GradientBoostingRegressor(n_estimators=5)",
    "fe.GradientBoostingClassifier(n_estimators=3)",
    "fe.GradientBoostingRegressor(n_estimators=3, loss='absolute_error', subsample=0.5, early_stopping=True)",
    "fe.RandomForestRegressor(2)",
    "fe.RandomForestRegressor(4, max_depth=8)",
    "fe.RandomForestClassifier(2, max_depth=10)",
    "fe.ExtraTreesRegressor(2)",
    "fe.ExtraTreesClassifier(2, max_depth=10)",
    "fe.AdaBoostClassifier(n_estimators=4)",
    "fe.AdaBoostClassifier(n_estimators=4, max_depth=3)",
    "fe.AdaBoostRegressor(n_estimators=4)",
    "fe.DecisionTreeRegressor()",
    "fe.IsolationForest(10)",
    "fe.BaggingRegressor(n_estimators=2)",
    f"fe.BaggingRegressor({_BOOSTED}, n_estimators=2)",
    f"fe.StackingRegressor([('a', {_BOOSTED}), ('b', {_FOREST})], cv=2)",
    f"fe.VotingRegressor([('a', {_BOOSTED}), ('b', {_FOREST})])",
]
_MEASURED = """
    import ctypes
    import numpy as np
    import fastens as fe

    def status(field):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

    rng = np.random.default_rng(0)
    X = rng.random(({n_rows}, {n_columns}), dtype=np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X)).astype(np.float32)
    model, n_outputs = {case}, 1
    if "Classifier" in type(model).__name__:
        y, n_outputs = np.digitize(y, [0.5, 0.9]), 3
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=2)
    {case}.fit(X[:3000], y[:3000])
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")  # resets the peak
    model.fit(X, y)
    needs = fe.estimate_memory({case}, *X.shape, n_outputs=n_outputs, kind="array", value_bytes=4)
    print(status("VmHWM") - before, needs.in_memory)
"""


def measured(case: str, n_rows: int, n_columns: int) -> tuple[int, int]:
    """Return the peak of a fit above its input, and its estimate, in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        code = dedent(_MEASURED).format(case=case, n_rows=n_rows, n_columns=n_columns)
        done = run_child(code, folder=Path(folder))
    assert done.returncode == 0, done.stderr
    peak, estimate = map(int, done.stdout.split())
    return peak, estimate


if __name__ == "__main__":
    shape = list(map(int, sys.argv[1:])) or [2_000_000, 20]
    for each in CASES:
        found, estimated = measured(each, *shape)
        print(f"{found / 1e6:8.0f} {estimated / 1e6:8.0f} {estimated / found:6.2f}  {each}", flush=True)  # noqa: T201
