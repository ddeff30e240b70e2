"""The Bayesian interchange format, BIF 0.15, in which networks are published: read into and written from plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.discrete_network import DiscreteNetwork

Array = NDArray[np.float64]
# A comment, a string, a mark, or a run of anything else.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"]*"|[{}()\[\];,|]|[^\s{}()\[\];,|"]+', re.DOTALL)
PLAIN = re.compile(r"[^\s{}()\[\];,|\"/]+")
KEYWORDS = frozenset({"network", "variable", "probability", "property", "type", "discrete", "default", "table"})


class BIFError(ValueError):
    """The text is no BIF, or not that of a network."""


class _Tokens:
    """The words of a text and a place among them."""

    def __init__(self, text: str) -> None:
        self.words = [word for word in TOKEN.findall(text) if not word.startswith(("//", "/*"))]
        self.place = 0

    def next(self) -> str:
        """The next word."""
        if self.place >= len(self.words):
            raise BIFError("the text ends within a block.")
        self.place += 1
        return self.words[self.place - 1]

    def expect(self, *wanted: str) -> None:
        """Pass by words that must come."""
        for word in wanted:
            found = self.next()
            if found != word:
                raise BIFError(
                    f"{word!r} must come where {found!r} is, after {' '.join(self.words[self._before()])!r}."
                )

    def _before(self) -> slice:
        return slice(max(self.place - 8, 0), max(self.place - 1, 0))

    def until(self, mark: str) -> list[str]:
        """The words up to a mark, without it."""
        try:
            end = self.words.index(mark, self.place)
        except ValueError:
            raise BIFError(f"{mark!r} is missing at the end of the text.") from None
        found = self.words[self.place : end]
        self.place = end + 1
        return found

    def statements(self) -> Iterator[str]:
        """The first word of each statement of a block in braces, up to its end; properties are passed by."""
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "property":
                self.until(";")
            else:
                yield word


def _listed(words: list[str]) -> list[str]:
    """The items of a list with commas, unquoted."""
    return [word.strip('"') for word in words if word != ","]


def _numbers(words: list[str]) -> list[float]:
    try:
        return [float(word) for word in words if word != ","]
    except ValueError as error:
        raise BIFError(f"a table must hold numbers: {error}.") from None


def parse_bif(text: str) -> DiscreteNetwork:
    """Read a network from the text of a BIF file; BIFError where it is malformed.

    Variables, values and parents are in the order of the text, values are strings, and probabilities need not sum to
    exactly 1.
    """
    tokens = _Tokens(text)
    states: dict[str, tuple[str, ...]] = {}
    found: dict[str, tuple[list[str], Array]] = {}
    while tokens.place < len(tokens.words):
        keyword = tokens.next()
        if keyword == "network":
            tokens.until("{")
            tokens.place -= 1
            for word in tokens.statements():
                raise BIFError(f"the network block must hold properties alone; it holds {word!r}.")
        elif keyword == "variable":
            name = tokens.next().strip('"')
            states[name] = _read_variable(name, tokens)
        elif keyword == "probability":
            name, parents, table = _read_probability(tokens, states)
            found[name] = parents, table
        else:
            raise BIFError(f"'network', 'variable' or 'probability' must come where {keyword!r} is.")
    return _assemble(states, found)


def _read_variable(name: str, tokens: _Tokens) -> tuple[str, ...]:
    values: tuple[str, ...] = ()
    for word in tokens.statements():
        if word != "type":
            raise BIFError(f"variable {name!r} must hold its type and properties; it holds {word!r}.")
        tokens.expect("discrete", "[")
        count = tokens.until("]")
        tokens.expect("{")
        values = tuple(_listed(tokens.until("}")))
        tokens.expect(";")
        if count != [str(len(values))]:
            raise BIFError(f"variable {name!r} must list {''.join(count)} values; it lists {len(values)}.")
    return values


def _read_probability(tokens: _Tokens, states: dict[str, tuple[str, ...]]) -> tuple[str, list[str], Array]:
    tokens.expect("(")
    name, *parents = (word for word in _listed(tokens.until(")")) if word != "|")
    for variable in (name, *parents):
        if variable not in states:
            raise BIFError(f"a probability must be that of variables declared before it; got {variable!r}.")
    shape = [len(states[parent]) for parent in parents]
    n_values = len(states[name])
    places = [{value: place for place, value in enumerate(states[parent])} for parent in parents]
    table = np.full((*shape, n_values), np.nan)
    default = np.full(n_values, np.nan)
    for word in tokens.statements():
        if word == "table":
            numbers = _numbers(tokens.until(";"))
            if len(numbers) != table.size:
                raise BIFError(f"the table of {name!r} must hold {table.size} numbers; it holds {len(numbers)}.")
            table = _as_published(np.array(numbers), shape, n_values)
            continue
        if word == "default":
            target: Any = default
        elif word == "(":
            target = table[_cell(name, tokens.until(")"), places)]
        else:
            raise BIFError(f"the probability of {name!r} must hold a table, rows or a default; it holds {word!r}.")
        numbers = _numbers(tokens.until(";"))
        if len(numbers) != n_values:
            raise BIFError(f"a row of {name!r} must hold {n_values} numbers; it holds {len(numbers)}.")
        target[:] = numbers
    missing = np.isnan(table).any(axis=-1)
    table[missing] = default
    if np.isnan(table).any():
        raise BIFError(f"the probability of {name!r} must have a row for each combination of its parents' values.")
    return name, parents, table


def _as_published(numbers: Array, shape: list[int], n_values: int) -> Array:
    """A `table` statement of a variable with parents counts its own value slowest, the last parent's fastest."""
    return np.moveaxis(numbers.reshape(n_values, *shape), 0, -1).copy()


def _cell(name: str, words: list[str], places: list[dict[str, int]]) -> tuple[int, ...]:
    values = _listed(words)
    if len(values) != len(places):
        raise BIFError(f"a row of {name!r} must name {len(places)} values; it names {len(values)}.")
    try:
        return tuple([place[value] for place, value in zip(places, values, strict=True)])
    except KeyError as error:
        raise BIFError(f"a row of {name!r} must name values of its parents; got {error.args[0]!r}.") from None


def _assemble(states: dict[str, tuple[str, ...]], found: dict[str, tuple[list[str], Array]]) -> DiscreteNetwork:
    if not states:
        raise BIFError("there is no variable.")
    without = [name for name in states if name not in found]
    if without:
        raise BIFError(f"every variable must have a probability; {without[0]!r} has none.")
    place = {name: index for index, name in enumerate(states)}
    network = DiscreteNetwork(
        tuple(states),
        tuple(states.values()),
        tuple(tuple(place[parent] for parent in found[name][0]) for name in states),
        tuple(found[name][1] for name in states),
    )
    network.check()
    return network


# Writing --------------------------------------------------


def format_bif(network: DiscreteNetwork, title: str = "unknown") -> str:
    """Write a network as BIF; numbers have all their digits, so that reading gives the same network."""
    words = [[_quoted(str(value)) for value in values] for values in network.states]
    for name, found in zip(network.names, words, strict=True):
        if len(set(found)) != len(found):
            raise ValueError(f"the values of {name!r} must differ as text to be written; got {found}.")
    names = [_quoted(name) for name in network.names]
    blocks = [f"network {_quoted(title)} {{\n}}\n"]
    for name, values in zip(names, words, strict=True):
        blocks.append(f"variable {name} {{\n  type discrete [ {len(values)} ] {{ {', '.join(values)} }};\n}}\n")
    for node, table in enumerate(network.tables):
        parents = network.parents[node]
        given = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
        rows = [", ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist()]
        if parents:
            combinations = product(*(words[parent] for parent in parents))
            lines = [f"  ({', '.join(values)}) {row};\n" for values, row in zip(combinations, rows, strict=True)]
        else:
            lines = [f"  table {rows[0]};\n"]
        blocks.append(f"probability ( {names[node]}{given} ) {{\n{''.join(lines)}}}\n")
    return "".join(blocks)


def _quoted(word: str) -> str:
    """A word as BIF holds it: quoted where it is not one plain word."""
    if '"' in word:
        raise ValueError(f"names and values must hold no quotation marks to be written as BIF; got {word!r}.")
    return word if PLAIN.fullmatch(word) and word not in KEYWORDS else f'"{word}"'
