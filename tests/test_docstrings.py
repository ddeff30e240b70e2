"""Docstrings of classes that share parameters are completed by tables."""

import inspect
import re

import pytest

import fastens
from fastens.checked_parameters import ChecksParameters, with_parameters
from fastens.docstrings import entries

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
    name : str, default="tree"
        What it is called.
    own : float, default=0.5
        Described here.

    Attributes
    ----------
    size_, weight_ : int
        Two of them.
    ratio_ : float
        A share.

        Between 0 and 1.
    """)


def test_parameter_without_description_is_an_error():
    with pytest.raises(KeyError, match="width"):

        @with_parameters
        class Wide(Base):
            """Has {parameters}."""

            width: int = 1


KINDS = [
    kind for kind in map(vars(fastens).get, fastens.__all__) if hasattr(kind, "fit") and "Parameters\n" in kind.__doc__
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
