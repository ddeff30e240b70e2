"""Models of earlier versions, ours and others', are read and predict as they did: see golden/make.py."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import fastens

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = {
    f"{path.parent.name}/{name}": values
    for path in sorted(GOLDEN.glob("*/expected.json"))
    for name, values in json.loads(path.read_text()).items()
}
# Sums in another order, or in single precision.
TOLERANCES = {"xgboost": 2e-6, "catboost": 1e-13}


def rows():
    specification = spec_from_file_location("make_golden", GOLDEN / "make.py")
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.rows()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", EXPECTED)
def test_golden_file(name):
    read = fastens.load if name.endswith(".fastens") else fastens.from_model
    model = read(GOLDEN / name)
    expected = np.array([float.fromhex(value) for value in EXPECTED[name]])
    is_mean = name.startswith("lightgbm") and name.endswith("forest.txt")
    found = np.ravel(model.predict(rows()) if is_mean else model._raw(rows()))
    if name.startswith("fastens") and name.endswith(".json"):
        tolerance = TOLERANCES["xgboost"]
    else:
        tolerance = TOLERANCES.get(name.partition("-")[0], 0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_there_are_files_of_all_formats():
    folders = {name.partition("-")[0] for name in EXPECTED}
    assert folders == {"catboost", "fastens", "lightgbm", "xgboost"}
    assert len(EXPECTED) > 40
