"""Networks from tables and BIF 0.15 files, and the state of saved networks."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.attributes import bin_names, distinct_values, limits_from_arrays, limits_to_arrays
from fastens.bayes.counts.counting import offsets_of
from fastens.bayes.networks.network_data import NetworkData, flatten_tables
from fastens.bayes.networks.structures import Parents, parents_from
from fastens.bayes.posterior import floats_in
from fastens.modelfile.saving import Saved, SavedParts
from fastens.modelfile.storage import replacing
from fastens.params.rules import instance
from fastens.table.encoder import InputEncoder

Array = NDArray[np.float64]
# A comment, a string, a punctuation mark, or a run of any other characters.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"]*"|[{}()\[\];,|]|[^\s{}()\[\];,|"]+', re.DOTALL)
PLAIN = re.compile(r"[^\s{}()\[\];,|\"/]+")
KEYWORDS = frozenset({"network", "variable", "probability", "property", "type", "discrete", "default", "table"})


class BIFError(ValueError):
    """Raised if a text is not valid BIF or does not describe a network."""


class _Tokens:
    """Token stream with a current position."""

    def __init__(self, text: str) -> None:
        self.words = [word for word in TOKEN.findall(text) if not word.startswith(("//", "/*"))]
        self.position = 0

    def next(self) -> str:
        """Return the next token and move past it; raise BIFError at the end of the text."""
        if self.position >= len(self.words):
            raise BIFError("the text ends within a block.")
        self.position += 1
        return self.words[self.position - 1]

    def expect(self, *wanted: str) -> None:
        """Consume one token for each of `wanted`; raise BIFError at the first token that differs."""
        for word in wanted:
            token = self.next()
            if token != word:
                raise BIFError(
                    f"expected {word!r} after {' '.join(self.words[self._preceding_tokens()])!r}; got {token!r}."
                )

    def _preceding_tokens(self) -> slice:
        """Return the slice of `words` with up to seven tokens before the one just read, for error messages."""
        return slice(max(self.position - 8, 0), max(self.position - 1, 0))

    def until(self, mark: str) -> list[str]:
        """Return the tokens before the next `mark` and move past it; raise BIFError if there is none."""
        try:
            end = self.words.index(mark, self.position)
        except ValueError:
            raise BIFError(f"{mark!r} is missing at the end of the text.") from None
        tokens = self.words[self.position : end]
        self.position = end + 1
        return tokens

    def statements(self) -> Iterator[str]:
        """Yield the first token of each statement of the next block in braces, without properties."""
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "property":
                self.until(";")
            else:
                yield word


def _list_items(words: list[str]) -> list[str]:
    """Return the unquoted items of a comma-separated list."""
    return [word.strip('"') for word in words if word != ","]


def _parse_numbers(words: list[str]) -> list[float]:
    """Return the numbers of a list with commas; raise BIFError for other words."""
    try:
        return [float(word) for word in words if word != ","]
    except ValueError as error:
        raise BIFError(f"a table must hold numbers: {error}.") from None


def parse_bif(text: str) -> NetworkData:
    """Parse a network from the text of a BIF file; raise BIFError if it is malformed.

    Variables, values and parents keep the order of the text. Values are strings, and probabilities may deviate from a
    sum of 1.
    """
    tokens = _Tokens(text)
    states: dict[str, tuple[str, ...]] = {}
    probabilities: dict[str, tuple[list[str], Array]] = {}
    while tokens.position < len(tokens.words):
        keyword = tokens.next()
        if keyword == "network":
            tokens.until("{")
            tokens.position -= 1
            for word in tokens.statements():
                raise BIFError(f"the network block must hold only properties; got {word!r}.")
        elif keyword == "variable":
            name = tokens.next().strip('"')
            states[name] = _read_variable(name, tokens)
        elif keyword == "probability":
            name, parents, table = _read_probability(tokens, states)
            probabilities[name] = parents, table
        else:
            raise BIFError(f"expected 'network', 'variable' or 'probability'; got {keyword!r}.")
    return _build_network(states, probabilities)


def _read_variable(name: str, tokens: _Tokens) -> tuple[str, ...]:
    """Read the block of variable `name` and return its values; raise BIFError if the block is malformed."""
    values: tuple[str, ...] = ()
    for word in tokens.statements():
        if word != "type":
            raise BIFError(f"variable {name!r} must have only a type and properties; got {word!r}.")
        tokens.expect("discrete", "[")
        count = tokens.until("]")
        tokens.expect("{")
        values = tuple(_list_items(tokens.until("}")))
        tokens.expect(";")
        if count != [str(len(values))]:
            raise BIFError(f"variable {name!r} must list {''.join(count)} values; it lists {len(values)}.")
    return values


def _read_probability(tokens: _Tokens, states: dict[str, tuple[str, ...]]) -> tuple[str, list[str], Array]:
    """Read a probability block; return the variable, its parents and its table, with one axis per parent first.

    `states` holds the values of the variables that are declared before. Raises BIFError if the block is malformed.
    """
    tokens.expect("(")
    name, *parents = (word for word in _list_items(tokens.until(")")) if word != "|")
    for variable in (name, *parents):
        if variable not in states:
            raise BIFError(f"a probability must be about variables that are declared before it; got {variable!r}.")
    shape = [len(states[parent]) for parent in parents]
    n_values = len(states[name])
    value_positions = [{value: position for position, value in enumerate(states[parent])} for parent in parents]
    table = np.full((*shape, n_values), np.nan)
    default = np.full(n_values, np.nan)
    for word in tokens.statements():
        if word == "table":
            numbers = _parse_numbers(tokens.until(";"))
            if len(numbers) != table.size:
                raise BIFError(f"the table of {name!r} must hold {table.size} numbers; it holds {len(numbers)}.")
            table = _reshape_table_statement(np.array(numbers), shape, n_values)
            continue
        if word == "default":
            target: Any = default
        elif word == "(":
            target = table[_parse_cell(name, tokens.until(")"), value_positions)]
        else:
            raise BIFError(f"the probability of {name!r} must hold a table, rows or a default; it holds {word!r}.")
        numbers = _parse_numbers(tokens.until(";"))
        if len(numbers) != n_values:
            raise BIFError(f"a row of {name!r} must hold {n_values} numbers; it holds {len(numbers)}.")
        target[:] = numbers
    missing = np.isnan(table).any(axis=-1)
    table[missing] = default
    if np.isnan(table).any():
        raise BIFError(f"the probability of {name!r} must have a row for each combination of its parents' values.")
    return name, parents, table


def _reshape_table_statement(numbers: Array, shape: list[int], n_values: int) -> Array:
    """Return the numbers of a `table` statement in the shape (*shape, n_values), with the variable on the last axis.

    `shape` holds the numbers of values of the parents. In the statement, the variable varies slowest and the last
    parent fastest.
    """
    return np.moveaxis(numbers.reshape(n_values, *shape), 0, -1).copy()


def _parse_cell(name: str, words: list[str], value_positions: list[dict[str, int]]) -> tuple[int, ...]:
    """Return the position of each parent value in `words`, the label of a row in the table of variable `name`.

    `value_positions` maps the values of each parent to positions. Raises BIFError if a value is unknown.
    """
    values = _list_items(words)
    if len(values) != len(value_positions):
        raise BIFError(f"a row of {name!r} must name {len(value_positions)} values; it names {len(values)}.")
    try:
        return tuple(
            [position_by_value[value] for position_by_value, value in zip(value_positions, values, strict=True)]
        )
    except KeyError as error:
        raise BIFError(f"a row of {name!r} must name values of its parents; got {error.args[0]!r}.") from None


def _build_network(
    states: dict[str, tuple[str, ...]], probabilities: dict[str, tuple[list[str], Array]]
) -> NetworkData:
    """Return the network with these values by variable, and parents and tables by variable.

    Raises BIFError without variables or if one has no table, and ValueError if the network is inconsistent.
    """
    if not states:
        raise BIFError("the network must have at least one variable.")
    without = [name for name in states if name not in probabilities]
    if without:
        raise BIFError(f"every variable must have a probability; {without[0]!r} has none.")
    indices = {name: index for index, name in enumerate(states)}
    network = NetworkData(
        tuple(states),
        tuple(states.values()),
        tuple(tuple(indices[parent] for parent in probabilities[name][0]) for name in states),
        tuple(probabilities[name][1] for name in states),
    )
    network.check()
    return network


# Writing --------------------------------------------------


def format_bif(network: NetworkData, title: str = "unknown") -> str:
    """Return a network as BIF text; numbers have full precision, so parsing restores the tables exactly.

    Raises ValueError if two values of a variable have the same text, or a name cannot be quoted.
    """
    words = [[_quote_word(str(value)) for value in values] for values in network.states]
    for name, texts in zip(network.names, words, strict=True):
        if len(set(texts)) != len(texts):
            raise ValueError(f"the values of {name!r} must have different texts to be written; got {texts}.")
    names = [_quote_word(name) for name in network.names]
    blocks = [f"network {_quote_word(title)} {{\n}}\n"]
    for name, values in zip(names, words, strict=True):
        blocks.append(f"variable {name} {{\n  type discrete [ {len(values)} ] {{ {', '.join(values)} }};\n}}\n")
    for node, table in enumerate(network.tables):
        parents = network.parents[node]
        condition = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
        rows = [", ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist()]
        if parents:
            combinations = product(*(words[parent] for parent in parents))
            lines = [f"  ({', '.join(values)}) {row};\n" for values, row in zip(combinations, rows, strict=True)]
        else:
            lines = [f"  table {rows[0]};\n"]
        blocks.append(f"probability ( {names[node]}{condition} ) {{\n{''.join(lines)}}}\n")
    return "".join(blocks)


def _quote_word(word: str) -> str:
    """Return a word as BIF text, quoted unless it is a plain token; raise ValueError if it has quotation marks."""
    if '"' in word:
        raise ValueError(f"names and values must not contain quotation marks to be written as BIF; got {word!r}.")
    return word if PLAIN.fullmatch(word) and word not in KEYWORDS else f'"{word}"'


CONTINUOUS = bin_names(np.zeros(0))  # the single value of a continuous variable: a column with one bin
CONTINUOUS_LIMITS = np.zeros(0)
GZIP = b"\x1f\x8b"  # magic number of gzip files


class NetworkFiles:
    """Mixin that creates fitted networks from tables, reads and writes BIF files, and saves networks."""

    _counts: list[Array] | None

    @classmethod
    def from_tables(
        cls,
        states: Mapping[str, Sequence[Any]],
        parents: Mapping[str, Sequence[str]],
        tables: Mapping[str, Any],
        target: str | None = None,
        **parameters: Any,
    ) -> Self:
        """Create a fitted network from probability tables.

        Parameters
        ----------
        states : dict
            Values of each variable by name; None for a continuous variable.
        parents : dict
            Parents of each variable that has any.
        tables : dict
            P(variable | parents) for each variable, with one axis for each parent, in order, and a last axis for the
            variable. For a continuous variable, the intercept, the slope of each continuous parent and the variance of
            the regression, on the last axis after one axis for each discrete parent, as in `regressions_`.
        target : str, optional
            Variable that `predict` predicts from the others. If None, the network has no class.
        **parameters
            Other parameters of the estimator, for a later `fit` with this structure. Variables in `hidden` are not
            columns of the network either.

        Returns
        -------
        fitted BayesianNetwork

        Raises
        ------
        ValueError
            If the arguments are inconsistent, or a distribution does not sum to 1.

        Examples
        --------
        >>> from fastens import BayesianNetwork
        >>> rain = BayesianNetwork.from_tables(
        ...     {"rain": ["no", "yes"], "wet": ["no", "yes"]},
        ...     {"wet": ["rain"]},
        ...     {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.2, 0.8]]},
        ... )
        >>> round(rain.query("rain", {"wet": "yes"})["yes"], 4)
        0.6667
        """
        for parameter, value in (("states", states), ("parents", parents), ("tables", tables)):
            instance(Mapping, "a dict with the variables as keys").check(parameter, value)
        names = tuple(states)
        continuous = [name for name in names if states[name] is None]
        missing = [name for name in names if name not in tables]
        if missing or len(tables) > len(names):
            raise ValueError(
                f"tables must have one table for each variable, {list(names)}; got tables for {list(tables)}."
            )
        values = [
            CONTINUOUS if name in continuous else distinct_values(f"states[{name!r}]", states[name]) for name in names
        ]
        network = NetworkData(names, tuple(map(tuple, values)), parents_from(dict(parents), names), ())
        table_arrays = [
            np.ones(network.sizes[list(family)]) if name in continuous else floats_in(f"tables[{name!r}]", tables[name])
            for name, family in zip(names, network.families, strict=True)
        ]
        regressions = {names.index(name): parse_regressions(name, tables[name]) for name in continuous}
        network = replace(network, tables=tuple(table_arrays), regressions=regressions)
        for node, regression in regressions.items():
            shape = (*network.tables[node].shape, regression.shape[-1])
            if regression.size == np.prod(shape):
                regressions[node] = regression.reshape(shape)
        network.check()
        return cls._from_network(network, target, parameters)

    @classmethod
    def read_bif(cls, path: str | os.PathLike[str], target: str | None = None, **parameters: Any) -> Self:
        """Read a network from a BIF file, which may be compressed with gzip.

        Parameters
        ----------
        path : str or path
            Path of the file.
        target : str, optional
            Variable that `predict` predicts from the others. If None, the network has no class.
        **parameters
            Other parameters of the estimator, for a later `fit` with this structure.

        Returns
        -------
        fitted BayesianNetwork

        Raises
        ------
        ValueError
            If the file is not a valid network; the message contains the position.
        """
        return cls._from_network(parse_bif(_read_text(Path(path))), target, parameters)

    def write_bif(self, path: str | os.PathLike[str], title: str = "unknown") -> None:
        """Write the network to a BIF file, which `read_bif` and other libraries can read; values become strings.

        If the path ends in .gz, the file is compressed with gzip.
        """
        model: Any = self
        model._check_fitted()
        instance(str, "a text").check("title", title)
        if model._network.continuous:
            raise ValueError("the network must be discrete to be written as BIF. Call save, or set max_bins.")
        data = format_bif(model._network, title).encode()
        with replacing(path) as unfinished:
            Path(unfinished).write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)

    @classmethod
    def _from_network(cls, network: NetworkData, target: str | None, parameters: Mapping[str, Any]) -> Any:
        """Return a fitted estimator with this network, whose class is `target`, and with these parameters.

        Raises ValueError if the target or a parameter does not match the network.
        """
        if target is not None:
            if target not in network.names:
                raise ValueError(f"target must be one of the variables, {list(network.names)}; got {target!r}.")
            network = network.with_sorted_states(network.names.index(target))
            parameters = {"class_name": target, **parameters}
        structure = {
            name: [network.names[p] for p in parents]
            for name, parents in zip(network.names, network.parents, strict=True)
        }
        model: Any = cls(structure=structure, **parameters)  # type: ignore[call-arg]
        model._check_parameters()
        last = [*_check_hidden(network, model.hidden or {}, target), *([] if target is None else [target])]
        names = [name for name in network.names if name not in last]
        network = network.reorder([network.names.index(name) for name in (*names, *last)])
        n_columns = len(names)
        is_number = [v in network.continuous for v in range(n_columns)]
        categories = zip(is_number, network.states[:n_columns], strict=True)
        model._encoder = InputEncoder(names, [None if number else list(values) for number, values in categories])
        model._set_columns()
        if target is not None:
            model.classes_ = np.array(network.states[-1])
        model._network, model._counts, model._limits = (
            network,
            None,
            [CONTINUOUS_LIMITS if number else None for number in is_number],
        )
        model.history_, model.n_iter_ = np.zeros(0), 0
        return model

    # Saving --------------------------------------------------

    def _network_arrays(self: Any) -> dict[str, np.ndarray]:
        """Return the arrays of the network, by name, for the model file."""
        parents = self._network.parents
        arrays = {
            "parents": np.array([parent for node_parents in parents for parent in node_parents], dtype=np.int64),
            "n_parents": np.array([len(node_parents) for node_parents in parents], dtype=np.int64),
            "tables": flatten_tables(self._network.tables),
        }
        if self._network.continuous:
            arrays["continuous"] = np.array(sorted(self._network.continuous), dtype=np.int64)
            arrays["regressions"] = flatten_tables(
                [self._network.regressions[v] for v in arrays["continuous"].tolist()]
            )
        arrays |= limits_to_arrays(self._limits)
        return arrays if self._counts is None else arrays | {"counts": flatten_tables(self._counts)}

    def _restore_network(self: Any, arrays: dict[str, np.ndarray]) -> None:
        """Set the network and its counts from the arrays of a model file; raise ValueError if they are malformed."""
        self._limits = limits_from_arrays(arrays, self._encoder.is_categorical)
        names, states = self._variables()
        n_parents = arrays["n_parents"]
        if n_parents.shape != (len(names),) or (n_parents < 0).any() or n_parents.sum() != len(arrays["parents"]):
            raise ValueError("the parents are malformed")
        flat = arrays["parents"].tolist()
        parents: Parents = tuple(tuple(flat[first:last]) for first, last in pairwise(offsets_of(n_parents).tolist()))
        if not all(0 <= parent < len(names) for parent in flat):
            raise ValueError("the parents are malformed")
        network = NetworkData(names, states, parents, ())
        shapes = [tuple(network.sizes[list(family)].tolist()) for family in network.families]
        continuous = arrays["continuous"].tolist() if "continuous" in arrays else []
        is_number = [v < len(self._limits) and self._limits[v] is not None for v in range(len(names))]
        if len(set(continuous)) < len(continuous) or not all(0 <= v < len(names) and is_number[v] for v in continuous):
            raise ValueError("the continuous variables are malformed")
        n_slopes = [len(set(parents[v]) & set(continuous)) for v in continuous]
        lengths = [(*shapes[v], count + 2) for v, count in zip(continuous, n_slopes, strict=True)]
        regressions = (
            dict(zip(continuous, _split_tables(arrays["regressions"], lengths), strict=True)) if continuous else {}
        )
        self._network = replace(network.with_tables(_split_tables(arrays["tables"], shapes)), regressions=regressions)
        self._network.check()
        self._counts = _split_tables(arrays["counts"], shapes) if "counts" in arrays else None
        if self._counts is not None and not all(np.isfinite(c).all() and (c >= 0).all() for c in self._counts):
            raise ValueError("the counts are malformed")

    _saved: ClassVar[SavedParts] = ("history_", "n_iter_", Saved(_network_arrays, _restore_network))


def parse_regressions(name: str, values: Any) -> Array:
    """Return the regressions of a variable as an array; raise ValueError if they are not numeric."""
    regressions = floats_in(f"tables[{name!r}]", values)
    if regressions.ndim == 0:
        raise ValueError(f"tables[{name!r}] must hold an intercept, slopes and a variance; got {values!r}.")
    return regressions


def _check_hidden(network: NetworkData, hidden: Mapping[str, int], target: str | None) -> list[str]:
    """Return the names in `hidden`, which maps hidden variables to their numbers of values.

    Raises ValueError unless each is a variable of the network other than `target` with the values 0, 1, ...
    """
    states = dict(zip(network.names, network.states, strict=True))
    for name, count in hidden.items():
        if name == target or list(states.get(name, ())) != list(range(count)):
            values_by_name = {other: list(values) for other, values in states.items() if other != target}
            raise ValueError(
                "hidden must map variables of the network other than the target to their numbers of values, "
                f"which are 0, 1, ...; got {name!r}: {count}, but its values are {values_by_name}."
            )
    return list(hidden)


def _read_text(path: Path) -> str:
    """Return the text of a file, which may be compressed with gzip; raise BIFError if it cannot be decoded."""
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data.startswith(GZIP) else data).decode()
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise BIFError(f"{path} must be UTF-8 text, plain or compressed with gzip: {error}.") from error


def _split_tables(flat: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    """Return the tables of these shapes, stored consecutively in `flat`; raise ValueError if the sizes differ."""
    ends = np.cumsum([float(np.prod(shape, dtype=np.float64)) for shape in shapes])
    if flat.ndim != 1 or ends[-1] != len(flat):
        raise ValueError("the tables do not match the variables")
    parts = np.split(flat, ends[:-1].astype(np.int64))
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
