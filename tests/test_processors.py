"""Models and predictions have the same bits whatever vectors of NumPy's and the C library's the processor runs."""

from __future__ import annotations

import os
import subprocess

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from reference.models import same_python

DIGESTS = """
import hashlib, warnings
import numpy as np
import fastens
from fastens import *
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.round(rng.random((300, 6)) * 40) / 8
number = X[:, 0] * X[:, 1] - X[:, 2] + np.round(rng.random(300) * 4)
classes, positive, bits = np.digitize(number, [0, 4]), number - number.min() + 1, (X > 2.5).astype(int)
weight = np.round(rng.random(300) * 3)
models = [(GradientBoostingRegressor(loss, n_estimators=5, random_state=0), positive, X) for loss in
          ("squared_error", "poisson", "gamma", "tweedie", "log_cosh", "huber")]
models += [(kind(random_state=0), number, X) for kind in
           (RandomForestRegressor, BayesTreeRegressor, ExtraTreesRegressor, AdaBoostRegressor)]
models += [(GradientBoostingClassifier(loss, n_estimators=5), classes > 0, X) for loss in ("log_loss", "exponential")]
models += [(AdaBoostClassifier(algorithm=kind, n_estimators=5), classes, X) for kind in ("discrete", "real", "logit")]
models += [(kind(), classes, X) for kind in
           (GradientBoostingClassifier, BayesTreeClassifier, GaussianNB, MixedNB, RandomForestClassifier)]
models += [(kind(), classes, bits) for kind in
           (CategoricalNB, BernoulliNB, MultinomialNB, ComplementNB, TANClassifier, AODEClassifier)]
for model, y, table in models:
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=5)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(table, y, sample_weight=weight)
    predict = getattr(model, "predict_proba", model.predict)
    print(type(model).__name__, hashlib.sha256(np.ascontiguousarray(predict(table)).tobytes()).hexdigest())
forest = IsolationForest(n_estimators=5, random_state=0).fit(X)
print("IsolationForest", hashlib.sha256(forest.score_samples(X).tobytes()).hexdigest())
"""


def digests(**environment):
    child = subprocess.run(
        [*same_python(), "-W", "ignore", "-c", DIGESTS],
        env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


def test_the_same_bits_without_wide_vectors():
    here = [feature for feature in __cpu_dispatch__ if __cpu_features__.get(feature)]
    if not here:
        pytest.skip("NumPy knows no wider vectors of this processor")
    plain = digests(
        NPY_DISABLE_CPU_FEATURES=" ".join(here),
        OPENBLAS_CORETYPE="Nehalem",
        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4",
    )
    assert len(plain) == 27
    assert plain == digests()
