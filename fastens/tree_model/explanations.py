"""Explanations of tree ensembles: Shapley values and permutation importances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state, get_tags

from fastens.base import TrainingData
from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.limits import check_count
from fastens.engine.parts import as_array, column_of, is_coded, map_parts, parts_of, with_column
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.trees.contributions import Reference, Shuffled, contributions, interactions
from fastens.inspection.contribution_plots import explained_quantity, output_labels
from fastens.inspection.model_plots import column_names
from fastens.inspection.plotting import COUNT
from fastens.params.rules import FLAG, RANDOM_STATE, naming_table, one_of
from fastens.table.columns.dates import instants_of
from fastens.table.columns.expanded import cells_of
from fastens.table.columns.factorize import is_missing
from fastens.table.opening import in_passes

Array = NDArray[np.float64]
_MAX_SCALES = 1 << 22  # maximum number of scales in memory
# The kernel finds equal background rows in a hash table with two 32-bit places for each row.
MAX_BACKGROUND = 2**29
# A function of a range of rows: the factor of each row's contributions against each background row.
Scales = Callable[[int, int], Array]


def raw_contributions(
    model: Any,
    X: Any,
    *,
    pairs: bool,
    players: NDArray[np.intp] | None = None,
    background: Any = None,
    scales: Scales | None = None,
) -> Array:
    """Return Shapley values of a fitted model's raw predictions, (n_samples, n_outputs, n_features + 1).

    The last entry is the expected prediction. `players` holds the index of the player (the unit that gets a value) of
    each feature of the trees; by default, the columns of X are the players. If `pairs` is True, the result has another
    axis of length n_features + 1, for interaction values. X and `background` are encoded tables; without a background,
    the values are path-dependent. `scales` has factors for transformed outputs.
    """
    n_threads, explain = resolve_n_jobs(model.n_jobs), interactions if pairs else contributions
    rows = None if background is None else as_array(background)
    if rows is not None:
        check_count("background", "rows", len(rows), MAX_BACKGROUND, advice="Pass a sample of them.")
    step = X.shape[0] if scales is None or rows is None else max(_MAX_SCALES // len(rows), 1)
    columns = model._column_of if players is None else players
    block_values = []
    for start, part in [(0, X)] if isinstance(X, np.ndarray) else parts_of(X):
        for first in range(0, max(len(part), 1), max(step, 1)):
            block = part[first : first + step]
            scale = None if scales is None else scales(start + first, start + first + len(block))
            reference = None if rows is None else Reference(rows, scale)
            block_values.append(explain(model._predicting_trees(), block, n_threads, reference, columns))
    explained = block_values[0] if len(block_values) == 1 else np.concatenate(block_values)
    if (scale := model._contribution_scale()) != 1:
        explained *= scale
    return explained


_MAX_LOSSES = 1 << 22  # maximum number of losses in memory
OUTPUTS = one_of("raw", "probability", "loss")


@dataclass(frozen=True)
class Explanation:
    """Result of `explain` if shap is not installed, with the attributes of ``shap.Explanation``.

    Attributes
    ----------
    values : float64 array of shape (n_samples, n_features), (n_samples, n_features, n_features) for pairs
        Shapley values. With several outputs, there is another axis at the end.
    base_values : float64 array of shape (n_samples,) or (n_samples, n_outputs)
        Expected output. The base value and the values of a row sum to its output.
    data : float64 array of shape (n_samples, n_features)
        The explained rows, with categories as their indices.
    display_data : object array of shape (n_samples, n_features) or None
        The explained rows with category labels and dates, or None if all columns are numeric.
    feature_names : list of str
        Names of the features.
    output_names : str or list of str
        Name of the output, or the classes or targets if there are several outputs.
    """

    values: Array
    base_values: Array
    data: Array
    display_data: NDArray[Any] | None
    feature_names: list[str]
    output_names: str | list[str]


def explain(model: Any, X: Any, background: Any, output: str, y: Any, **options: Any) -> Any:
    """Return the explanation that `TreeModel.explain` returns; `options` are `interactions`, `parts` and `groups`.

    Raise ValueError for invalid or inconsistent arguments.
    """
    interactions, parts, groups = options["interactions"], options["parts"], options["groups"]
    FLAG.check("interactions", interactions)
    FLAG.check("parts", parts)
    _check_output(model, background, output, y)
    of_groups = None if groups is None else ColumnGroups.of(model, groups)
    if of_groups is not None and parts:
        raise ValueError("groups must be None with parts=True, because parts divide columns; got groups of columns.")
    X = in_passes(X)
    rows = model._check_table(X)
    with naming_table("background"):
        others = None if background is None else model._check_table(background)
    game = None if output == "raw" or others is None else _transformed_game(model, rows, others, output, y)
    scales = None if game is None else game.scales
    players = feature_players(model, parts=parts) if of_groups is None else of_groups.players
    shapley_values = raw_contributions(
        model, rows, pairs=interactions, players=players, background=others, scales=scales
    )
    if interactions:
        values, base = shapley_values[..., :-1, :-1], shapley_values[..., -1, -1]
    else:
        values, base = shapley_values[..., :-1], shapley_values[..., -1]
    if game is not None:
        base = game.base[:, None]
    if parts:
        return _explanation_of_parts(model, rows, np.moveaxis(values, 1, -1), base, output)
    return _explanation(model, X, np.moveaxis(values, 1, -1), base, output, of_groups)


def feature_players(model: Any, *, parts: bool) -> NDArray[np.intp] | None:
    """Return a separate index for each feature of the trees, (n_parts,), if `parts` is True; otherwise None.

    None means that the columns of X are the players, the units that get a Shapley value.
    """
    return np.arange(len(model._column_of)) if parts else None


@dataclass(frozen=True)
class ColumnGroups:
    """Groups of columns and of their parts, the players of an explanation, followed by the columns without a group.

    Attributes
    ----------
    players : intp array of shape (n_parts,)
        Index of the player that each of `feature_parts_` belongs to.
    names : list of str
        Names of the players.
    columns : intp array of shape (n_parts,)
        Column of each part.
    n_groups : int
        Number of groups.
    """

    players: NDArray[np.intp]
    names: list[str]
    columns: NDArray[np.intp]
    n_groups: int

    @classmethod
    def of(cls, model: Any, groups: Any) -> ColumnGroups:
        """Return the groups that a dict of lists of columns and parts describes; raise ValueError if it is invalid."""
        if not isinstance(groups, Mapping) or not groups:
            raise ValueError(f"groups must be a dict of lists of columns by the name of the group; got {groups!r}.")
        columns, of_part = ColumnLookup(model.n_features_in_, model._encoder.names), model._column_of
        part_names, players = np.array(model.feature_parts_, dtype=object), np.full(len(of_part), -1)
        for number, (name, members) in enumerate(groups.items()):
            if not isinstance(members, list | tuple | np.ndarray) or not len(members):
                raise ValueError(f"groups must have a list of columns for {name!r}; got {members!r}.")
            for member in members:
                is_member = (part_names == member) & isinstance(member, str)
                if columns.is_name(member) or not is_member.any():
                    is_member = of_part == columns.position("groups", member)
                if (players[is_member] >= 0).any():
                    raise ValueError(f"groups must have each column once; got {member!r} twice.")
                players[is_member] = number
        rest, rest_index = np.unique(of_part[players < 0], return_inverse=True)
        players[players < 0] = len(groups) + rest_index
        names = column_names(model)
        player_names = [*map(str, groups), *(names[column] for column in rest)]
        if len(set(player_names)) < len(player_names):
            raise ValueError(
                f"groups must have names that differ from each other and from other columns; got {player_names}."
            )
        return cls(players, player_names, of_part, len(groups))

    def data(self, data: Array, shown: NDArray[Any] | None) -> tuple[Array, NDArray[Any]]:
        """Return the rows as numbers and as display values, both (n_rows, n_players).

        A group of several columns has the number 0, and displays how many columns it has. `shown` holds display values
        of the columns of `data`, or None.
        """
        shown = data if shown is None else shown
        values, texts = np.zeros((len(data), len(self.names))), np.empty((len(data), len(self.names)), dtype=object)
        for player in range(len(self.names)):
            is_member = self.players == player
            columns = np.unique(self.columns[is_member])
            is_whole = player >= self.n_groups or is_member[np.isin(self.columns, columns)].all()
            if is_whole and len(columns) == 1:
                values[:, player], texts[:, player] = data[:, columns[0]], shown[:, columns[0]]
            else:
                texts[:, player] = f"{len(columns)} columns" if is_whole else f"{is_member.sum()} parts"
        return values, texts


def _check_output(model: Any, background: Any, output: str, y: Any) -> None:
    """Raise ValueError unless `output` is known, and `background` and `y` are passed if it requires them."""
    OUTPUTS.check("output", output)
    if output != "raw" and background is None:
        raise ValueError(f"background must be a table of rows for output={output!r}; got None.")
    if (y is None) != (output != "loss"):
        got = "None" if y is None else "targets"
        raise ValueError(f"y must be passed with output='loss', and only then; got {got} with output={output!r}.")


# Outputs other than raw predictions --------------------------------------------------


@dataclass(frozen=True)
class _Game:
    """Transformed output: its mean over the background for each row, and the scales of the contributions."""

    base: Array
    scales: Scales


def _transformed_game(model: Any, rows: Any, others: Any, output: str, y: Any) -> _Game | None:
    """Return the base values and contribution scales for the probability or loss of each row.

    The result is None if the output equals the raw prediction. `rows` and `others` are the encoded rows to explain and
    background rows. Raise ValueError for a model without such an output.
    """
    if output == "probability" and model._has_class_shares:
        return None
    if model._predicting_trees().n_outputs != 1:
        raise ValueError(f"output must be 'raw' for a model of several raw predictions; got {output!r}.")
    scale = model._contribution_scale()
    raw, base_raw = (scale * model._predicting_trees().predict_raw(as_array(table))[:, 0] for table in (rows, others))
    if output == "probability":
        after, base_after = model._inverse_link(raw), model._inverse_link(base_raw)
        return _Game(
            np.full(len(raw), base_after.mean()),
            lambda first, last: _output_slopes(raw[first:last], after[first:last, None], base_raw, base_after[None]),
        )
    target = _encoded_target(model, y, len(raw))
    loss = _row_losses(model)

    def losses(first: int, last: int) -> Array:
        """Return the losses of the targets of some rows with the predictions of the background rows."""
        row_losses = loss(np.repeat(target[first:last], len(base_raw)), np.tile(base_raw, last - first))
        return row_losses.reshape(last - first, -1)

    after, step = loss(target, raw), max(_MAX_LOSSES // len(base_raw), 1)
    starts = range(0, max(len(raw), 1), step)
    return _Game(
        np.concatenate([losses(first, min(first + step, len(raw))).mean(axis=1) for first in starts]),
        lambda first, last: _output_slopes(raw[first:last], after[first:last, None], base_raw, losses(first, last)),
    )


def _output_slopes(raw: Array, after: Array, base_raw: Array, base_after: Array) -> Array:
    """Return differences of outputs divided by differences of raw predictions, (n_rows, n_background).

    The differences are between rows (`raw`, `after`) and background rows (`base_raw`, `base_after`). A quotient is 1 if
    the raw predictions are equal.
    """
    change = raw[:, None] - base_raw
    return np.divide(after - base_after, change, out=np.ones(change.shape), where=change != 0)


def _encoded_target(model: Any, y: Any, n_rows: int) -> Array:
    """Return the encoded target, (n_rows,); raise ValueError for a wrong shape, rankers and survival models."""
    if get_tags(model).estimator_type is None:
        raise ValueError("output must be 'raw' or 'probability' for rankers and survival models; got 'loss'.")
    target: Array = model._encode_target(model._read_target(y))
    if target.shape != (n_rows,):
        raise ValueError(f"y must have one target for each of the {n_rows} rows of X; got shape {target.shape}.")
    return target


def _row_losses(model: Any) -> Callable[[Array, Array], Array]:
    """Return a function from targets and raw predictions to each row's loss; raise ValueError without such a loss."""
    if model._has_class_shares:
        raise ValueError(
            "output must be 'raw' or 'probability' for models that average class probabilities; got 'loss'."
        )
    if model._targets is not None or model._loss.name == "squared_error":
        return lambda y, raw: (y - raw) ** 2
    if model._loss.name == "huber":
        raise ValueError(
            "output must be 'raw' with loss='huber', because its threshold changes in each round of fit; got 'loss'."
        )
    model._loss.check_measured()
    row_losses: Callable[[Array, Array], Array] = model._loss.row_losses
    return row_losses


# Results --------------------------------------------------


def _explanation(
    model: Any, X: Any, values: Array, base: Array, output: str, groups: ColumnGroups | None = None
) -> Any:
    """Return the explanation by columns of X, or by `groups`, from Shapley values (n_rows, n_columns, n_outputs).

    `base` holds the base values of each row or of all rows, and `output` is the kind of output.
    """
    data = _unknown_as_nan(model, as_array(model._encode_table(X))[:, : model.n_features_in_].astype(np.float64))
    shown = _displayed(model, X, data)
    if groups is not None:
        return _as_explanation(model, values, base, output, groups.data(data, shown), groups.names)
    return _as_explanation(model, values, base, output, (data, shown), column_names(model))


def _explanation_of_parts(model: Any, rows: Any, values: Array, base: Array, output: str) -> Any:
    """Return the explanation by `feature_parts_`, such as target means and parts of dates, from Shapley values.

    `rows` is the encoded table, and `values` has shape (n_rows, n_parts, n_outputs).
    """
    data = as_array(rows).astype(np.float64)
    return _as_explanation(model, values, base, output, (data, None), model.feature_parts_)


def _as_explanation(
    model: Any, values: Array, base: Array, output: str, data: tuple[Array, NDArray[Any] | None], names: list[str]
) -> Any:
    """Return Shapley values with their base values, rows and names, as a shap.Explanation if shap is installed.

    `data` is a pair of the rows as numbers and their display values or None, and `names` are names of columns.
    """
    n_outputs = values.shape[-1]
    return for_shap(
        Explanation(
            np.ascontiguousarray(values if n_outputs > 1 else values[..., 0]),
            np.ascontiguousarray(base if n_outputs > 1 else base[:, 0]),
            *data,
            names,
            [str(label) for label in output_labels(model, n_outputs)] if n_outputs > 1 else _output_name(model, output),
        )
    )


def for_shap(explanation: Explanation) -> Any:
    """Return the explanation as a ``shap.Explanation`` if shap is installed, otherwise unchanged."""
    try:
        from shap import Explanation as ShapExplanation
    except ImportError:
        return explanation
    return ShapExplanation(**vars(explanation))


def _output_name(model: Any, output: str) -> str:
    """Return the name of the quantity that `output` explains, such as "log odds", "probability" or "loss"."""
    name = explained_quantity(model, 0)
    if output == "raw":
        return name
    linked = {"log odds of the prediction": "prediction", "log odds": "probability"}
    linked |= {"logarithm of the ": "", "path length": "score"}
    for raw, text in linked.items():
        name = name.replace(raw, text)
    return "loss" if output == "loss" else name


def _unknown_as_nan(model: Any, data: Array) -> Array:
    """Replace category codes of missing values and unseen categories by NaN, in place, and return `data`."""
    for column, kind in enumerate(model._encoder.categories):
        if kind is not None:
            values = data[:, column]
            values[(values < 0) | (values >= len(kind))] = np.nan
    return data


def _displayed(model: Any, X: Any, data: Array) -> NDArray[Any] | None:
    """Return the rows with labels, dates, texts and lists, (n_rows, n_columns); None if all columns are numeric.

    X is the table as passed, and `data` the encoded rows.
    """
    encoder = model._encoder
    kinds, dates = encoder.categories, encoder.dates
    if all(kind is None for kind in kinds) and not dates and not encoder.expanded:
        return None
    shown = data.astype(object)
    for column, kind in enumerate(kinds):
        if kind is not None:
            is_known = ~np.isnan(data[:, column])
            shown[is_known, column] = [kind[int(code)] for code in data[is_known, column]]
    for column in dates:
        is_known = ~np.isnat(instants := instants_of(data[:, column]))
        shown[is_known, column] = instants[is_known].tolist()
    is_read = bool(encoder.expanded) and not is_coded(X)
    for start, part in encoder.matched(X, type(model).__name__).parts() if is_read else ():
        matched = part.matched(encoder.names)
        for column in encoder.expanded:
            for row, cell in enumerate(cells_of(matched.column(column)), start):
                shown[row, column] = np.nan if is_missing(cell) else cell
    return shown


Shuffles = list[NDArray[np.uint32]]
# Minimum number of rows per thread; each row traverses all trees several times.
_GRAIN = 50


def permutation_importance(
    model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, n_repeats: int, random_state: Any
) -> Bunch:
    """Return importances: a model's increase of loss when each column is shuffled `n_repeats` times.

    The loss is 1 - score, as in `TreeModel.permutation_importance`.
    """
    COUNT.check("n_repeats", n_repeats)
    RANDOM_STATE.check("random_state", random_state)
    data = model._check_validation(X, y, sample_weight)
    weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
    check_count("X", "rows", len(data.y), advice="Pass a sample of them.")
    generator = check_random_state(random_state)
    shuffles = [generator.permutation(len(data.y)).astype(np.uint32) for _ in range(n_repeats)]
    growth = growth_of_score_loss if model._targets is None else growth_of_row_losses
    return importance_bunch(growth(model, data, weight, shuffles) / weight.sum())


def growth_of_row_losses(model: Any, data: TrainingData, weight: Array, shuffles: Shuffles) -> Array:
    """Return the increase of the weighted sum of losses with each shuffle of each column.

    The shape is (n_features, n_shuffles). Each of `shuffles` holds the index of the row whose value each row gets. Rows
    whose leaves do not change are not evaluated again.
    """
    trees, y = model._predicting_trees(), data.y.reshape(len(data.y), -1)
    n_threads = resolve_n_jobs(model.n_jobs)
    matrix = trees.binning.transform(model._apply_statistics(data).X, n_threads)
    shuffled = Shuffled(trees, matrix, model._column_of, threads_for(len(y), n_threads, _GRAIN))
    targets = model._targets
    loss = targets.score_loss(y, weight)
    growth = np.zeros((model.n_features_in_, len(shuffles)))
    for repeat, others in enumerate(shuffles):
        for rows, mean, means in shuffled.blocks(others):
            before = weight[rows] @ loss(targets.predictions(mean), y[rows])
            after = [weight[rows] @ loss(targets.predictions(changed), y[rows]) for changed in means]
            growth[:, repeat] += np.array(after) - before
    return growth


def growth_of_score_loss(model: Any, data: TrainingData, weight: Array, shuffles: Shuffles) -> Array:
    """Return the increase of (1 - score) times the total weight with each shuffle of each column.

    The shape is (n_features, n_shuffles). Each of `shuffles` holds the index of the row whose value each row gets. It
    serves scores that need all rows at once.
    """
    trees, n_threads = model._predicting_trees(), resolve_n_jobs(model.n_jobs)

    def weighted_loss(X: Any) -> float:
        encoded = model._apply_statistics(TrainingData(X, data.y, None)).X
        raw = map_parts(lambda part: trees.predict_raw(part, n_threads), encoded)
        return float(weight.sum()) * (1 - model._score_of_raw(raw, data.y, weight))

    before = weighted_loss(data.X)
    growth = np.zeros((model.n_features_in_, len(shuffles)))
    for column in np.unique(model._column_of[model._ensemble.feature[model._ensemble.feature >= 0]]):
        encoded_columns = np.flatnonzero(model._encoder.column_of == column).tolist()
        values = [column_of(data.X, index) for index in encoded_columns]
        for repeat, others in enumerate(shuffles):
            changed = data.X
            for index, column_values in zip(encoded_columns, values, strict=True):
                changed = with_column(changed, index, column_values[others])
            growth[column, repeat] = weighted_loss(changed) - before
    return growth


def score_of_predictions(predicted: Any, y: Array, weight: Array, *, of_classes: bool) -> float:
    """Return the accuracy of class probabilities if `of_classes` is True, otherwise R2 averaged over targets.

    `y` holds encoded targets, (n_rows,) or (n_rows, n_targets).
    """
    targets = y.reshape(len(y), -1)
    if of_classes:
        parts = predicted if isinstance(predicted, list) else [predicted]
        answers = np.column_stack([part.argmax(axis=1) for part in parts])
        return float(np.average((answers == targets).all(axis=1), weights=weight))
    misses = np.average((predicted.reshape(len(y), -1) - targets) ** 2, axis=0, weights=weight)
    variance = np.average((targets - np.average(targets, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    return float(1 - np.mean(misses / np.where(variance > 0, variance, 1.0)))


def importance_bunch(importances: Array) -> Bunch:
    """Return a Bunch with mean, standard deviation and standard error over repeats for each feature.

    `importances` has shape (n_features, n_repeats), and NaN is ignored. The standard error is NaN if there is only one
    value.
    """
    is_known = ~np.isnan(importances)
    n_known = is_known.sum(axis=1)
    mean = np.sum(importances, axis=1, where=is_known) / np.maximum(n_known, 1)
    squares = np.sum((importances - mean[:, None]) ** 2, axis=1, where=is_known)
    std = np.sqrt(squares / np.maximum(n_known - 1, 1))
    return Bunch(
        importances_mean=mean,
        importances_std=std,
        importances_standard_error=np.where(n_known > 1, std / np.sqrt(np.maximum(n_known, 1)), np.nan),
        importances=importances,
    )
