"""Public names are imported when they are first used, and stand in one list: the stub files."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fastens
import fastens.bayes
from fastens.public_names import public_names
from reference import signatures
from reference.models import same_python

ROOT = Path(__file__).parents[2]
PACKAGES = [fastens, fastens.bayes]
OF_PACKAGES = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)


@OF_PACKAGES
def test_stub_holds_nothing_but_the_names(package):
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    assert [(alias.name, alias.asname) for line in lines for alias in line.names] == [(n, n) for n in package.__all__]
    assert {ast.unparse(line) for line in stub.body} - {ast.unparse(line) for line in lines} <= {"__version__: str"}
    assert len(set(package.__all__)) == len(package.__all__) > 20


@OF_PACKAGES
def test_every_name_is_found_and_kept(package):
    for name in package.__all__:
        assert getattr(package, name) is vars(package)[name] is getattr(importlib.import_module(package.__name__), name)
    assert set(package.__all__) <= set(dir(package))


@OF_PACKAGES
def test_public_names_differ_from_module_names(package):
    assert {module.name for module in pkgutil.iter_modules(package.__path__)} & set(package.__all__) == set()


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'fastens' has no attribute 'Forest'"):
        _ = fastens.Forest
    with pytest.raises(ImportError, match="cannot import name 'Forest'"):
        from fastens import Forest  # noqa: F401


@pytest.mark.slow
def test_packages_are_there_without_an_import_of_their_own():
    assert imported("import fastens; fastens.onnx; fastens.distributed; fastens.bayes") >= {
        "fastens.onnx",
        "fastens.distributed",
        "fastens.bayes",
    }


def test_names_of_any_package(tmp_path):
    (tmp_path / "__init__.pyi").write_text("# text\n\nfrom math import pi as pi\nfrom math import tau as t\nx: int\n")
    names, get, _ = public_names("math", str(tmp_path / "__init__.py"))
    assert names == ["pi"]
    assert get("pi") == np.pi


def test_pickles_know_the_modules_of_classes():
    model = fastens.DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    assert pickle.loads(pickle.dumps(model)).predict([[1.0]]).tolist() == [1]


def imported(statement: str) -> set[str]:
    """What is imported after a statement, in a process of its own."""
    code = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([*same_python(), "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_package_alone_is_light():
    assert imported("import fastens, fastens.bayes") & {"numpy", "scipy", "sklearn", "pandas", "narwhals"} == set()


@pytest.mark.slow
def test_estimators_leave_for_later_what_a_fit_does_without():
    names = "GradientBoostingClassifier, RandomForestRegressor, AdaBoostClassifier, GaussianNB"
    later = {f"sklearn.{part}" for part in ("ensemble", "inspection", "linear_model", "metrics", "model_selection")}
    assert imported(f"from fastens import {names}") & {*later, "matplotlib"} == set()


@pytest.mark.slow
def test_models_within_models_are_loaded_where_nothing_has_been_imported(tmp_path):
    """Both as members and as parameters."""
    X = np.random.default_rng(0).random((60, 2))
    trees = fastens.BaggingClassifier(fastens.GradientBoostingClassifier(n_estimators=2), 2, random_state=0)
    model = fastens.StackingClassifier([("trees", trees), ("bayes", fastens.GaussianNB())], cv=2).fit(X, X[:, 0] > 0.5)
    model.save(tmp_path / "model")
    code = f"import fastens; print(fastens.load({str(tmp_path / 'model')!r}).predict([[0.9, 0.5]]))"
    child = subprocess.run([*same_python(), "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[ True]"


def test_the_interface_changes_on_purpose():
    """A difference is a change of the interface; `python tests/reference/signatures.py` records it."""
    assert "\n".join(signatures.lines()) + "\n" == signatures.FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["asv_benchmarks", "contrib", "docs/examples", "tools"])
def test_scripts_use_names_that_exist(folder):
    """The imports within functions as well, which nobody notices until the script runs."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fastens":
                module = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name) or find_spec(f"{node.module}.{name.name}"), (path, name.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fastens":
                assert hasattr(fastens, node.attr), (path, node.attr)


def test_benchmarks_can_be_imported(monkeypatch):
    folder = ROOT / "asv_benchmarks"
    if not folder.is_dir():
        pytest.skip("the source distribution has no benchmarks")
    monkeypatch.syspath_prepend(folder)
    for path in sorted((folder / "benchmarks").glob("[!_]*.py")):
        importlib.import_module(f"benchmarks.{path.stem}")


def test_estimators_need_no_optional_package():
    hidden = "import sys; sys.modules.update(dict.fromkeys(['pyarrow', 'pandas', 'polars', 'rich', 'matplotlib']))"
    assert "fastens.base" in imported(f"{hidden}; from fastens import GradientBoostingRegressor")
