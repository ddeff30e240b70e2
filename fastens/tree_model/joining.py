"""One binning for trees of several tables: the thresholds and categories of them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.linear.linear_leaves import LinearEnsemble
from fastens.engine.trees.recoding import recoded
from fastens.engine.trees.structure import MAX_CODES
from fastens.engine.trees.trees import TreeEnsemble
from fastens.table.columns.spellings import same_categories
from fastens.table.encoder import InputEncoder

# A number that is the position of no category.
_BEYOND = float(2**31)


class _Column(NamedTuple):
    """A categorical column: codes of positions and of other numbers, and each model's code for each of these codes."""

    codes: NDArray[np.uint16]
    of_others: int
    old_codes: list[NDArray[np.intp]]


def on_one_binning(models: Sequence[Any], encoder: InputEncoder) -> list[TreeEnsemble]:
    """Return the trees of fitted models on one binning of the rows that an encoder makes.

    Parameters
    ----------
    models : sequence of TreeModel
        Models of the same columns, each with categories of its own.
    encoder : InputEncoder
        It knows the categories of them all.

    Raises
    ------
    ValueError
        Where a column has too many codes, or is read in several ways.
    """
    binnings = [model._ensemble.binning for model in models]
    thresholds = _thresholds(models)
    kinds = binnings[0].is_categorical
    columns = {f: _joined(models, f, encoder) for f in np.flatnonzero(kinds).tolist()}
    for f, own in enumerate(thresholds):
        n_codes = len(columns[f].old_codes[0]) if f in columns else len(own) + 2
        if n_codes > MAX_CODES:
            name = _name(encoder, int(models[0]._column_of[f]))
            raise ValueError(f"column {name} has {n_codes} bins in all models; at most {MAX_CODES} are possible.")
    lookup = np.zeros((len(kinds), 2), dtype=np.int32)
    if binnings[0].lookup is not None:
        lookup[:, 1] = binnings[0].lookup[:, 1]
    for f, column in columns.items():
        lookup[f, 0] = column.of_others
    codes = [columns[f].codes if f in columns else None for f in range(len(kinds))]
    binning = Binning(thresholds, codes, lookup)
    return [
        on_binning(model._ensemble, binning, {f: column.old_codes[number] for f, column in columns.items()})
        for number, model in enumerate(models)
    ]


def on_binning(trees: TreeEnsemble, binning: Binning, old_codes: dict[int, NDArray[np.intp]]) -> TreeEnsemble:
    """The same as `recoded`, models in the leaves included."""
    out = recoded(trees, binning, old_codes)
    return LinearEnsemble(out, trees.linear) if isinstance(trees, LinearEnsemble) else out


def knowing_more(model: Any, trees: TreeEnsemble, encoder: InputEncoder) -> TreeEnsemble:
    """Return trees that send categories which an encoder knows and their model's does not where unseen ones go.

    The new categories have codes of their own, so that further trees tell them apart: the first of them, as many as
    there are bins left of `max_bins`.

    Parameters
    ----------
    model : TreeModel
        A fitted model.
    trees : TreeEnsemble
        Trees on its table.
    encoder : InputEncoder
        It knows the categories of the model, and others after them.
    """
    binning, old_codes = trees.binning, {}
    category_codes = list(binning.category_codes)
    for f in np.flatnonzero(binning.is_categorical).tolist():
        column, n_codes = int(model._column_of[f]), int(binning.n_codes[f])
        old_codes[f] = np.arange(n_codes)
        categories = encoder.categories[column]
        if categories is None:
            continue
        places = np.array(_places(model._encoder, column, categories, 0))
        codes = binning.of_features([f]).codes(places[:, None])[0].astype(np.intp)
        n_known, n_all = len(model._encoder.categories[column]), len(categories)
        new = np.arange(n_known, n_all)[: max(model.max_bins + 1 - n_codes, 0)]
        old_codes[f] = np.append(old_codes[f], codes[new])
        codes[new] = n_codes + np.arange(len(new))
        category_codes[f] = codes.astype(np.uint16)
    return on_binning(trees, Binning(binning.thresholds, category_codes, binning.lookup), old_codes)


def _thresholds(models: Sequence[Any]) -> list[NDArray[np.float64]]:
    """The thresholds of the first model where all have the same, else those that trees use."""
    every = [model._ensemble.binning.thresholds for model in models]
    if all(all(map(np.array_equal, every[0], own)) for own in every[1:]):
        return every[0]
    used = [model._ensemble.with_used_thresholds().binning.thresholds for model in models]
    return [np.unique(np.concatenate(of_column)) for of_column in zip(*used, strict=True)]


def _joined(models: Sequence[Any], feature: int, encoder: InputEncoder) -> _Column:
    """Codes that tell apart what any of the models does; that of missing values is 0."""
    column = int(models[0]._column_of[feature])
    categories = encoder.categories[column]
    binnings = [model._ensemble.binning.of_features([feature]) for model in models]
    ways = [0 if each.lookup is None else int(each.lookup[0, 1]) for each in binnings]
    if categories is None and len(set(ways)) > 1:
        name = _name(encoder, column)
        raise ValueError(f"column {name} must hold codes that all models read alike; they read fractions differently.")
    n_positions = max(len(each.category_codes[0]) for each in binnings)
    codes = []
    for model, binning in zip(models, binnings, strict=True):
        places = _places(model._encoder, column, categories, n_positions)
        codes.append(binning.codes(np.array([[np.nan], *([place] for place in places), [_BEYOND]]))[0])
    every, first, kind = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    code = np.argsort(order)[kind]
    old = list(every[:, order].astype(np.intp))
    return _Column(code[1:-1].astype(np.uint16), int(code[-1]), old)


def _places(encoder: InputEncoder, column: int, categories: list[Any] | None, n_positions: int) -> list[float]:
    """What a model's own encoder makes of each position of a categorical column."""
    if categories is None:
        return [float(place) for place in range(n_positions)]
    own = {category: float(place) for place, category in enumerate(encoder.categories[column] or [])}
    same = same_categories([each for each in categories if each not in own], own)
    missing = [float(len(own))] if encoder.missing_is_category else []
    return [own.get(same.get(each, each), encoder.unseen) for each in categories] + missing


def _name(encoder: InputEncoder, column: int) -> str:
    return str(column) if encoder.names is None else repr(encoder.names[column])
