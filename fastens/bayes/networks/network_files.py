"""Networks that come from outside, tables or a BIF file, and what a saved one holds."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.column_bins import Limits, limits_from_arrays, limits_to_arrays
from fastens.bayes.counts.counting import offsets_of
from fastens.bayes.counts.declared import distinct_values
from fastens.bayes.networks.bif import BIFError, format_bif, parse_bif
from fastens.bayes.networks.discrete_network import DiscreteNetwork, as_table, joined
from fastens.bayes.networks.graphs import Parents, parents_from
from fastens.parameters import instance
from fastens.storage import replacing
from fastens.table.encoder import InputEncoder

Array = NDArray[np.float64]
GZIP = b"\x1f\x8b"  # how such files begin


class NetworkFiles:
    """What makes a fitted network of given tables, writes one, and takes it apart for `save`."""

    _network: DiscreteNetwork
    _counts: list[Array] | None
    _limits: Limits
    _encoder: InputEncoder
    history_: Array
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    classes_: Any

    @classmethod
    def from_tables(
        cls,
        states: Mapping[str, Sequence[Any]],
        parents: Mapping[str, Sequence[str]],
        tables: Mapping[str, Any],
        target: str | None = None,
        **parameters: Any,
    ) -> Any:
        """Make a network of given probabilities.

        Parameters
        ----------
        states : dict
            The values of each variable, by name.
        parents : dict
            The parents of each variable that has any.
        tables : dict
            For each variable P(variable | parents), an axis for each parent in their order and one for the variable.
        target : str, optional
            The variable that `predict` predicts from the others.
        **parameters
            Other parameters of the estimator, for a later `fit` with this structure. Variables in `hidden` are in no
            column here either.

        Returns
        -------
        fitted BayesianNetwork

        Raises
        ------
        ValueError
            If the parts do not fit each other, or a distribution does not sum to 1.

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
        for parameter, given in (("states", states), ("parents", parents), ("tables", tables)):
            instance(Mapping, "a dict by variable").check(parameter, given)
        names = tuple(states)
        missing = [name for name in names if name not in tables]
        if missing or len(tables) > len(names):
            raise ValueError(f"tables must hold one for each variable, {list(names)}; got those of {list(tables)}.")
        network = DiscreteNetwork(
            names,
            tuple(tuple(distinct_values(f"states[{name!r}]", states[name])) for name in names),
            parents_from(dict(parents), names),
            tuple(as_table(f"tables[{name!r}]", tables[name]) for name in names),
        )
        network.check()
        return cls._of(network, target, parameters)

    @classmethod
    def read_bif(cls, path: str | os.PathLike[str], target: str | None = None, **parameters: Any) -> Any:
        """Read a network from a BIF file, compressed by gzip or not.

        Parameters
        ----------
        path : str or path
            The file.
        target : str, optional
            The variable that `predict` predicts from the others.
        **parameters
            Other parameters of the estimator, for a later `fit` with this structure.

        Returns
        -------
        fitted BayesianNetwork

        Raises
        ------
        ValueError
            If the file holds no network; the message says where.
        """
        return cls._of(parse_bif(_read_text(Path(path))), target, parameters)

    def write_bif(self, path: str | os.PathLike[str], title: str = "unknown") -> None:
        """Write the network as a BIF file, which `read_bif` and other libraries read; values become text.

        A path that ends in .gz is compressed by gzip.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        instance(str, "a text").check("title", title)
        data = format_bif(self._network, title).encode()
        with replacing(path) as unfinished:
            Path(unfinished).write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)

    @classmethod
    def _of(cls, network: DiscreteNetwork, target: str | None, parameters: Mapping[str, Any]) -> Any:
        if target is not None:
            if target not in network.names:
                raise ValueError(f"target must be one of the variables, {list(network.names)}; got {target!r}.")
            network = network.with_sorted_states(network.names.index(target))
            parameters = {"class_name": target, **parameters}
        structure = {
            name: [network.names[p] for p in found] for name, found in zip(network.names, network.parents, strict=True)
        }
        model: Any = cls(structure=structure, **parameters)  # type: ignore[call-arg]
        model._check_parameters()
        last = [*_hidden_variables(network, model.hidden or {}, target), *([] if target is None else [target])]
        names = [name for name in network.names if name not in last]
        network = network.ordered([network.names.index(name) for name in (*names, *last)])
        n_columns = len(names)
        model._encoder = InputEncoder(names, [list(found) for found in network.states[:n_columns]])
        model._set_columns()
        if target is not None:
            model.classes_ = np.array(network.states[-1])
        model._network, model._counts, model._limits = network, None, [None] * n_columns
        model.history_, model.n_iter_ = np.zeros(0), 0
        return model

    # Saving --------------------------------------------------

    def _fitted_names(self) -> tuple[str, ...]:
        return ("history_", "n_iter_")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        parents = self._network.parents
        arrays = {
            "parents": np.array([parent for found in parents for parent in found], dtype=np.int64),
            "n_parents": np.array([len(found) for found in parents], dtype=np.int64),
            "tables": joined(self._network.tables),
        }
        arrays |= limits_to_arrays(self._limits)
        return arrays if self._counts is None else arrays | {"counts": joined(self._counts)}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._limits = limits_from_arrays(arrays, self._encoder.is_categorical)
        names, states = self._variables()  # type: ignore[attr-defined]
        n_parents = arrays["n_parents"]
        if n_parents.shape != (len(names),) or (n_parents < 0).any() or n_parents.sum() != len(arrays["parents"]):
            raise ValueError("the parents are malformed")
        flat = arrays["parents"].tolist()
        parents: Parents = tuple(tuple(flat[first:last]) for first, last in pairwise(offsets_of(n_parents).tolist()))
        if not all(0 <= parent < len(names) for parent in flat):
            raise ValueError("the parents are malformed")
        network = DiscreteNetwork(names, states, parents, ())
        shapes = [tuple(network.sizes[list(family)].tolist()) for family in network.families]
        self._network = network.with_tables(_split(arrays["tables"], shapes))
        self._network.check()
        self._counts = _split(arrays["counts"], shapes) if "counts" in arrays else None
        if self._counts is not None and not all(np.isfinite(c).all() and (c >= 0).all() for c in self._counts):
            raise ValueError("the counts are malformed")


def _hidden_variables(network: DiscreteNetwork, hidden: Mapping[str, int], target: str | None) -> list[str]:
    """The variables in no column; ValueError where they are not those of the network."""
    states = dict(zip(network.names, network.states, strict=True))
    for name, count in hidden.items():
        if name == target or list(states.get(name, ())) != list(range(count)):
            found = {other: list(values) for other, values in states.items() if other != target}
            raise ValueError(
                "hidden must name variables of the network other than the target, and their numbers of values, which "
                f"are 0, 1, ...; got {name!r}: {count}, and they are {found}."
            )
    return list(hidden)


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data.startswith(GZIP) else data).decode()
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise BIFError(f"{path} is no text in UTF-8, nor that compressed by gzip: {error}.") from error


def _split(flat: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([float(np.prod(shape, dtype=np.float64)) for shape in shapes])
    if flat.ndim != 1 or ends[-1] != len(flat):
        raise ValueError("the tables do not fit the variables")
    parts = np.split(flat, ends[:-1].astype(np.int64))
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
