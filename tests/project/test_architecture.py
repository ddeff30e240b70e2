"""The shape of the package: imports point one way and never round, files, functions and signatures stay small."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict

import pytest
from sklearn.base import BaseEstimator

import fastens
from source_files import PACKAGE, SOURCES, absolute, cycles, functions, imported_modules, module_name, relative

# The rooms: folders, and the modules at the top. A room imports only from rooms above it in this list.
ROOMS = [
    "public_names",
    "warn",
    "library_threads",
    "rollback",
    "params",
    "modelfile",
    "files",
    "engine",
    "engine.rows",
    "engine.bins",
    "engine.losses",
    "engine.histograms",
    "engine.splits",
    "engine.predict",
    "engine.trees",
    "engine.grow",
    "engine.forest.splits",
    "engine.forest",
    "engine.linear",
    "table.columns",
    "table",
    "distributed",
    "base",
    "encoding",
    "conformal",
    "posterior",
    "inspection",
    "monitoring",
    "tree_model",
    "boosting",
    "forests",
    "combining",
    "adaboost",
    "bayes.posterior",
    "bayes.counts",
    "bayes.naive",
    "bayes.networks",
    "bayes.concepts",
    "bayes.trees",
    "bayes.hypotheses",
    "bayes",
    "tuning",
    "exchange",
    "fastens",
    "loading",
    "onnx",
    "cli.table",
    "cli.models",
    "cli.report",
    "cli.explaining",
    "cli.inspecting",
    "cli.page",
    "cli",
]
# A file is one subject that a reader wants to see whole: normally 200 to 500 lines.
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = {".py": 6, ".pyx": 8, ".pxd": 8, ".h": 8}
MAX_CONSTRUCTOR_PARAMETERS = 33
COPIED_LINES = 10
# By folder: the most own classes that a public estimator inherits from, and the longest line of them, itself included.
INHERITANCE = {
    "boosting": (8, 5),
    "adaboost": (7, 5),
    "combining": (7, 6),
    "forests": (10, 6),
    "bayes": (11, 7),
    "encoding": (3, 3),
}

# Exceptions. These lists only shrink: an entry that is no longer needed fails its test.
LONG_SIGNATURES = {
    "read_table": 8,
    "BaseConformal.fit": 8,
    "BoostedTrees.fit": 11,
    "GradientBoostingClassifier.conformalize": 7,
    "GradientBoostingRanker.fit": 16,
    "add_family_entries": 9,
    "advance": 9,
    "average_parents": 11,
    "bias_variance_decomposition": 11,
    "count_families": 10,
    "plot_decision_boundary": 7,
    "plot_explanation": 7,
    "TreeModel.explain": 7,
    "TreeModel.plot_contributions": 7,
    "send_unseen": 11,
    "tune": 7,
    "choose_sides": 12,
}
MODULE_CYCLES = []
FOLDER_CYCLES = []

# What bayes/ may import, apart from itself: every room of it the first set, and single rooms what they need besides.
# Posterior-averaged trees are grown by the engine, and are trees like those of forests/.
BAYES_ROOMS = {
    "public_names",
    *("warn", "rollback", "params", "base", "modelfile"),
    *("table", "table.columns", "engine", "engine.bins"),
}
MORE_OF_BAYES = {
    "bayes.networks": {"inspection"},
    "bayes.concepts": {"inspection"},
    "bayes.trees": {"engine.rows", "engine.trees", "engine.grow", "posterior", "tree_model", "forests"},
    "bayes.hypotheses": {"inspection", "combining"},
}


def is_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "fastens"


def folder_of(kind: type) -> str:
    return kind.__module__.split(".")[1]


def depth(kind: type) -> int:
    """The number of own classes on the longest way up, the class itself included."""
    return 1 + max((depth(base) for base in kind.__bases__ if is_own(base)), default=0)


ESTIMATORS = [
    kind
    for kind in map(fastens.__getattr__, fastens.__all__)
    if isinstance(kind, type) and issubclass(kind, BaseEstimator)
]


def room_of(module: str) -> str:
    """The room that a dotted module name belongs to: the longest in the list that it starts with."""
    names = module.split(".")[1:]
    if names[:1] == ["__main__"]:
        return "cli"
    room = ".".join(names)
    while room and room not in ROOMS:
        room = room.rpartition(".")[0]
    return room or "fastens"


@functools.cache
def arrows():
    """For each module those that it imports; a .pyx and its .pxd are one. All files are read, but by one worker."""
    found = defaultdict(set)
    for source in SOURCES:
        found[module_name(source)] |= {m for m in imported_modules(source) if m.split(".")[0] == "fastens"}
    return dict(found)


@pytest.mark.slow
def test_imports_point_one_way():
    pairs = {(room_of(module), room_of(other)) for module, others in arrows().items() for other in others}
    assert [f"{room} must not know {other}" for room, other in pairs if ROOMS.index(other) > ROOMS.index(room)] == []


def test_arrows_are_read_from_every_kind_of_file():
    assert "fastens.engine.thread_pool.h" in imported_modules(PACKAGE / "engine/thread_pool.pyx")
    assert (
        "fastens.engine.structs"
        in imported_modules(PACKAGE / "engine/thread_pool.pxd") | arrows()["fastens.engine.bins.bins"]
    )
    assert "fastens.engine.dispatch.h" in imported_modules(PACKAGE / "engine/histograms/quantise_loops.h")
    assert absolute("..bins.binning", PACKAGE / "engine/grow/growth.py") == "fastens.engine.bins.binning"
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]


def test_no_module_imports_itself_by_way_of_others():
    check_cycles(arrows(), MODULE_CYCLES)


def test_no_folder_imports_itself_by_way_of_others():
    folders = {module_name(path): module_name(path.parent) for path in SOURCES if path.name != "__init__.py"}
    between = defaultdict(set)
    for module, folder in folders.items():
        between[folder] |= {folders[other] for other in arrows()[module] if other in folders} - {folder, "fastens"}
    check_cycles(between, FOLDER_CYCLES)


def check_cycles(arrows_between, exceptions):
    """Each cycle must lie within an exception, and each exception must hold one."""
    found = [{name.removeprefix("fastens.") for name in cycle} for cycle in cycles(arrows_between)]
    assert [cycle for cycle in found if not any(cycle <= allowed for allowed in exceptions)] == []
    assert [allowed for allowed in exceptions if not any(cycle <= allowed for cycle in found)] == []


def test_bayes_knows_few_rooms():
    for module in arrows():
        room = room_of(module)
        if room.split(".")[0] == "bayes":
            known = {other for other in map(room_of, arrows()[module]) if other.split(".")[0] != "bayes"}
            allowed = BAYES_ROOMS | MORE_OF_BAYES.get(room, set())
            assert known <= allowed, f"{module} must not know {known - allowed}"


def test_rooms_are_folders_or_modules():
    rooms = [PACKAGE.joinpath(*room.split(".")) for room in ROOMS if room != "fastens"]
    assert [room for room in rooms if not room.is_dir() and not room.with_suffix(".py").is_file()] == []


def test_architecture_page_names_what_there_is():
    page = (PACKAGE.parent / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:fastens|tests)/[\w./]+)`", page)
    assert len(named) > 10
    assert [name for name in named if not (PACKAGE.parent / name).exists()] == []
    assert [room for room in ROOMS if "." not in room and room != "fastens" and room not in page] == []


def test_pages_name_files_that_exist():
    root = PACKAGE.parent
    for page in [
        *root.glob("docs/*.md"),
        *root.glob("docs/measured/*.md"),
        root / "README.md",
        root / "CONTRIBUTING.md",
    ]:
        named = re.findall(r"\b(?:fastens|tests|asv_benchmarks)/[\w/]+\.\w+", page.read_text(encoding="utf-8"))
        assert [name for name in named if not (root / name).exists()] == [], page.name


def test_engine_knows_no_scikit_learn():
    engine = [path for path in SOURCES if "engine" in path.parts]
    assert [relative(path) for path in engine if any(m.startswith("sklearn") for m in imported_modules(path))] == []


def test_files_stay_short():
    n_lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: n for path, n in n_lines.items() if n > MAX_FILE_LINES} == {}


@pytest.mark.slow
def test_functions_fit_on_a_screen():
    n_lines = {(relative(path), each.name): len(each.lines) for path in SOURCES for each in functions(path)}
    assert {function: n for function, n in n_lines.items() if n > MAX_FUNCTION_LINES} == {}


@pytest.mark.slow
def test_signatures_stay_short():
    long = Counter()
    for path in SOURCES:
        for function in functions(path):
            limit = MAX_CONSTRUCTOR_PARAMETERS if function.name == "__init__" else MAX_PARAMETERS[path.suffix]
            if function.n_parameters > limit:
                name = f"{function.owner}.{function.name}".lstrip(".")
                long[name] = max(long[name], function.n_parameters)
    assert {name: n for name, n in long.items() if n > LONG_SIGNATURES.get(name, 0)} == {}
    assert LONG_SIGNATURES.keys() - long.keys() == set()


def test_no_function_is_copied():
    """No run of ten lines of code stands in two functions."""
    places = defaultdict(set)
    for path in SOURCES:
        for name, _, lines, _ in functions(path):
            for first in range(len(lines) - COPIED_LINES + 1):
                places["\n".join(lines[first : first + COPIED_LINES])].add((relative(path), name))
    assert [sorted(where) for where in places.values() if len(where) > 1] == []


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_estimators_inherit_from_few_classes(kind):
    most, deepest = INHERITANCE[folder_of(kind)]
    above = [base.__name__ for base in kind.__mro__[1:] if is_own(base)]
    assert len(above) <= most, above
    assert depth(kind) <= deepest


def test_inheritance_limits_match_folders():
    assert {folder_of(kind) for kind in ESTIMATORS} == set(INHERITANCE)
