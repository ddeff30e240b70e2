"""Docstrings of classes that share parameters are completed by tables."""

import doctest
import inspect
import pydoc
import re
import runpy
from pathlib import Path

import pytest

import fastens
from fastens.params.docstrings import described, entries
from fastens.params.estimator import ChecksParameters, with_parameters

SCRIPT = Path(__file__).parents[2] / "docs/full_docstrings.py"
full_docstring = runpy.run_path(str(SCRIPT))["full_docstring"]
DOCS = entries("""\
depth : int
    Most splits.
name : str
    What it is called.
size_, weight_ : int
    Two of them.
other_ : int
    That only others have.
""")


class Base(ChecksParameters):
    """A base that fits."""

    _docs = DOCS
    size_: int

    @property
    def weight_(self):
        return 1

    @property
    def ratio_(self) -> float:
        """A share.

        Between 0 and 1.
        """
        return 0.5


@with_parameters
class Shared(Base):
    """A model.

    Parameters
    ----------
    {parameters}
    own : float, default=0.5
        Described here.

    Attributes
    ----------
    {attributes}
    """

    depth: int = 3
    own: float = 0.5
    name: str = "tree"


def test_table_completes_docstring():
    assert Shared.__doc__ == inspect.cleandoc("""A model.

    Parameters
    ----------
    depth : int, default=3
        Most splits.
    own : float, default=0.5
        Described here.
    name : str, default="tree"
        What it is called.

    Attributes
    ----------
    size_, weight_ : int
        Two of them.
    ratio_ : float
        A share.

        Between 0 and 1.
    """)


def test_both_sections_in_one_word():
    @with_parameters
    class Plain(Base):
        """{parameters and attributes}"""

    assert re.findall(r"^(\w+).* : |^(\w+)\n-+$", Plain.__doc__, flags=re.M) == [
        ("", "Parameters"),
        ("", "Attributes"),
        ("size_", ""),
        ("ratio_", ""),
    ]


def test_parameter_without_description_is_an_error():
    with pytest.raises(KeyError, match="width"):

        @with_parameters
        class Wide(Base):
            """Has {parameters}."""

            width: int = 1


def test_tables_are_read_from_docstrings():
    text = """A base.

    Parameters
    ----------
    depth : int
        Most splits.

    Attributes
    ----------
    size_, weight_ : int
        Two of them.

    Examples
    --------
    name : none
    """
    names = ["depth", "size_, weight_"]
    assert described(text) == {name: DOCS[name] for name in names}
    assert described(None) == {}  # python -OO strips docstrings


KINDS = [
    kind
    for kind in map(fastens.__getattr__, fastens.__all__)
    if hasattr(kind, "fit") and "Parameters\n" in kind.__doc__
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parameters_are_described_with_their_defaults(kind):
    text = re.search(r"^ *Parameters\n *-+\n(.*?)\n *\n", kind.__doc__, flags=re.M | re.S)[1]
    described = {
        name: type_
        for names, type_ in re.findall(r"^ *(\w+(?:, \w+)*) : (.*)$", text, flags=re.M)
        for name in names.split(", ")
    }
    arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]
    names = {each.name for each in arguments}
    assert described.keys() == names if kind._docs else described.keys() <= names
    for each in arguments:
        shown = re.search(r"default=(.*)$", described.get(each.name, ""))
        if shown:
            assert eval(shown[1]) == each.default


def lacking(name):
    """The sections that the docstring of a public name lacks."""
    thing = getattr(fastens, name)
    text = inspect.getdoc(thing) or ""
    wanted = [("Examples",)]
    if inspect.isfunction(thing):
        wanted += [("Parameters",), ("Returns",)]
    elif inspect.isclass(thing) and not issubclass(thing, Exception):
        wanted += [("Parameters", "Attributes")]  # records that functions return have no parameters of their own
    return [" or ".join(each) for each in wanted if not any(f"\n{title}\n---" in text for title in each)]


def test_public_names_are_documented():
    assert {name: lacking(name) for name in fastens.__all__ if lacking(name)} == {}


METHODS = {
    f"{method.__module__}.{method.__qualname__}": method
    for kind in KINDS
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and method.__module__.startswith("fastens.")
}


def undescribed(method):
    """The arguments that a docstring does not name, and "Returns" where it does not say what comes back."""
    text, signature = full_docstring(method), inspect.signature(method)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", text, flags=re.M | re.S)
    entries = re.findall(r"^([\w*, ]+?)(?: :.*)?$", section[1], flags=re.M) if section else []
    named = {each.strip().lstrip("*") for entry in entries for each in entry.split(",")}
    missing = [name for name in list(signature.parameters)[1:] if name not in named]
    returns_nothing = signature.return_annotation in (None, "None", inspect.Signature.empty)
    says = returns_nothing or re.search(r"^(Returns|Yields)\n-", text, flags=re.M)
    return missing if says else [*missing, "Returns"]


def test_methods_of_estimators_are_documented():
    assert {name: undescribed(method) for name, method in METHODS.items() if undescribed(method)} == {}


EXAMPLES = {name: text for name, method in METHODS.items() if ">>> " in (text := full_docstring(method))}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_methods(name):
    """`--doctest-modules` sees only the docstrings of help(), which has no examples of methods."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0))
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(
    ("kind", "n_lines"),
    [
        (fastens.GradientBoostingClassifier, 700),
        (fastens.GradientBoostingRegressor, 740),
        (fastens.GradientBoostingRanker, 620),
        (fastens.RandomForestClassifier, 720),
        (fastens.AdaBoostClassifier, 670),
        (fastens.VotingClassifier, 420),
    ],
)
def test_help_is_short(kind, n_lines):
    text = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert len(text.splitlines()) <= n_lines
    order = list(inspect.signature(kind).parameters)
    listed = [name for name in re.findall(r"^ \|  (\w+) : .*default=", text, flags=re.M) if name in order]
    assert listed == [name for name in order if name in listed]
    again = re.findall(rf"^ \|  ({'|'.join(order)}) = ", text, flags=re.M)
    assert kind is fastens.VotingClassifier or again == []
