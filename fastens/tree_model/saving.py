"""Estimators that hold one TreeEnsemble: saving and loading it, its raw predictions, leaves and categories."""

from __future__ import annotations

import os
from collections.abc import Collection
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.engine.linear.linear_leaves import read_trees
from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.paths import leaf_features
from fastens.engine.trees.trees import TreeEnsemble
from fastens.engine.trees.used_columns import on_used_columns, raw_of_rows
from fastens.exchange.writing.export import export
from fastens.options import Categories
from fastens.storage import ModelFileError
from fastens.table.memory_limits import MemoryNeeds, TableShape
from fastens.table.target_statistics import METHODS, Targets, TargetStatistics
from fastens.tree_model.memory import forest_needs
from fastens.warn import warn

PREFIX = "ensemble."
# With Categories(encoding="auto"), columns of more categories are encoded by target statistics.
MOST_PARTITIONED = 32


def tree_arrays(trees: TreeEnsemble, prefix: str) -> dict[str, np.ndarray]:
    """The state of trees as arrays, each with a prefix to its name."""
    return {prefix + name: array for name, array in trees.to_arrays().items()}


def trees_among(arrays: dict[str, np.ndarray], prefix: str) -> TreeEnsemble:
    """The trees that the arrays of this prefix are of."""
    return read_trees({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)})


class SavedEnsemble:
    """What an estimator has whose fitted state is the input encoder's, a TreeEnsemble and a few numbers."""

    _ensemble: TreeEnsemble
    _statistics: TargetStatistics | None = None
    # What the trees' values are combined to: "sum", "mean", "path length", "weighted median" or "leaves".
    _combination: ClassVar[str] = "sum"
    _has_random_thresholds: ClassVar[Any] = False
    _splits_dates = True

    if TYPE_CHECKING:  # of the estimator
        n_jobs: int | None
        _check_fitted: Any
        _check_table: Any
        _encoder: Any
        n_features_in_: int
        _options: Any
        _every_parameter: Any

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return tree_arrays(self._ensemble, PREFIX)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._ensemble = trees_among(arrays, PREFIX)
        if not 1 <= getattr(self, "_n_targets", 1) <= self._ensemble.n_outputs:
            raise ModelFileError("the trees and the targets do not fit together")
        self._restored()
        # Trees of other libraries may split numbers that are codes of categories.
        in_trees, in_table = self._ensemble.binning.is_categorical, self._is_categorical
        if in_trees.shape != in_table.shape or (in_table & ~in_trees).any():
            raise ModelFileError("the trees and the columns do not fit together")
        if self._ensemble.n_outputs != self._n_outputs():
            raise ModelFileError("the trees and the classes do not fit together")
        if self._ensemble.n_trees % self._ensemble.trees_per_round:
            raise ModelFileError("the trees are not whole rounds")

    def _n_outputs(self) -> int:
        """How many raw predictions a row has."""
        raise NotImplementedError

    def _restored(self) -> None:
        """Make again what follows from the rest."""

    def _of_members(self) -> dict[str, Any]:
        """The parameters that its trees by themselves have."""
        return self._every_parameter() | {"splitter": "random" if self._has_random_thresholds else "best"}

    # Categories --------------------------------------------------

    def _category_options(self) -> Categories:
        return self._options("categories") if hasattr(self, "categories") else Categories(encoding="partition")

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        """Encode TrainingData, each row from other rows than itself."""
        self._statistics = None
        method, columns = self._columns_of_statistics()
        self._warn_of_pooled(columns)
        if not columns:
            return data
        values = _targets(data.y, self._n_classes())
        targets = Targets(values, data.sample_weight, data.comm, data.own_weight)
        self._statistics, X = TargetStatistics.learn(data.X, targets, columns, method, seed)
        return data._replace(X=X)

    def _columns_of_statistics(self) -> tuple[str, list[int]]:
        """How categories are encoded by the target, and the columns where they are."""
        method = self._category_options().encoding
        sizes = [0 if found is None else len(found) for found in self._encoder.categories]
        if method == "auto":
            return "target", [column for column, size in enumerate(sizes) if size > MOST_PARTITIONED]
        return method, np.flatnonzero(sizes).tolist() if method in METHODS else []

    def _n_classes(self) -> list[int]:
        """The number of classes of each target; empty where targets are numbers."""
        classes = getattr(self, "classes_", [])
        return [len(found) for found in (classes if isinstance(classes, list) else [classes])]

    def _warn_of_pooled(self, encoded: Collection[int] = ()) -> None:
        """Warn of columns of more categories than codes, but for those that are encoded by the target."""
        estimator, has_option = getattr(self, "estimator", None), hasattr(self, "categories")
        most = getattr(self if estimator is None else estimator, "max_bins", None)
        for column, found in enumerate(self._encoder.categories):
            if found is None or most is None or len(found) <= most or column in encoded:
                continue
            name = column if self._encoder.names is None else self._encoder.names[column]
            remedy = "Categories(encoding='target') or a larger max_bins" if has_option else "a larger max_bins"
            warn(
                f"Column {name!r} must have at most max_bins={most} categories to keep them all; got {len(found)}. "
                f"Only the {most - 1} most frequent ones are kept, and the others are treated as a single category. "
                f"Use {remedy} to distinguish them."
            )

    def _learn_same_statistics(self, data: Any, seed: int) -> Any:
        """Encode the rows of an earlier fit again; ValueError where they give other statistics.

        The model stays as it is.
        """
        again = copy(self)
        encoded = again._learn_statistics(data, seed)
        again._check_same_statistics(self._statistics_arrays())
        return encoded

    def _check_same_statistics(self, before: dict[str, NDArray[Any]]) -> None:
        """Raise ValueError unless categories are encoded as in the fit that is continued."""
        now = self._statistics_arrays()
        if before.keys() != now.keys() or any(
            not np.array_equal(now[name], old, equal_nan=True) for name, old in before.items()
        ):
            raise ValueError(
                "X and y must be those of the fit that this one continues, as they give the categories their numbers; "
                "with Categories(encoding='partition') they may be others."
            )

    def _apply_statistics(self, data: Any) -> Any:
        """Encode TrainingData to validate on."""
        return data if self._statistics is None else data._replace(X=self._statistics.transform(data.X))

    @property
    def _is_categorical(self) -> NDArray[np.bool_]:
        """Which columns of the encoded table hold categories."""
        kinds = self._encoder.is_categorical
        if self._statistics is not None:
            kinds[self._statistics.columns] = False
        return np.append(kinds, np.zeros(len(self._column_of) - len(kinds), dtype=bool))

    @property
    def _column_of(self) -> NDArray[np.intp]:
        """The column of X that each column of the encoded table is derived from."""
        found = self._encoder.column_of
        return found if self._statistics is None else found[self._statistics.column_of(len(found))]

    def _by_columns(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sums over the columns of X of values of the encoded table's columns."""
        return np.bincount(self._column_of, values, self.n_features_in_).astype(np.float64)

    def _statistics_arrays(self) -> dict[str, NDArray[Any]]:
        """For saving."""
        return {} if self._statistics is None else self._statistics.to_arrays()

    def _send_unseen(self) -> None:
        """Let categories that were never seen have the mean of all sides, where the options say so."""
        if self._category_options().unseen == "average":
            self._ensemble = self._ensemble.with_unseen_on_average()

    def _restore_statistics(self, arrays: dict[str, NDArray[Any]]) -> None:
        """From what `_statistics_arrays` gave; ValueError for anything else."""
        if arrays:
            self._statistics = TargetStatistics.from_arrays(arrays)
            kinds = self._encoder.is_categorical
            if any(not 0 <= column < len(kinds) or not kinds[column] for column in self._statistics.columns):
                raise ValueError("the statistics of the categories and the columns do not fit together")

    def export(self, path: str | os.PathLike[str] | None = None, *, format: str, **options: Any) -> Any:  # noqa: A002
        """Return the model in another format, or write it to a file.

        What a format cannot hold is an error, never left out.

        Parameters
        ----------
        path : path, optional
            The file to write; default: return what would be written.
        format : {"lightgbm", "onnx", "sklearn", "xgboost", "treelite", "c", "sql", "pmml"}
            "lightgbm": the text of a Booster. "onnx": a serialised model. "sklearn": an estimator of scikit-learn.
            "xgboost": the JSON text of a Booster. "treelite": a checkpoint. "c": a C99 header. "sql": a query.
            "pmml": a document of version 4.4.
        **options
            "onnx": `ml_opset`, 5 or 3 (for older runtimes), and `inputs`, "auto", "tensor" or "columns". "c": `name`,
            which all names begin with. "sql": `table`, the name of the table.

        Returns
        -------
        str, bytes or object; None where it was written to a file

        Raises
        ------
        ValueError
            For a model that the format cannot hold.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> text = GradientBoostingRegressor(n_estimators=5).fit(X, y).export(format="lightgbm")
        >>> text.splitlines()[:2]
        ['tree', 'version=v4']
        """
        self._check_fitted()
        return export(self, path, format, options)

    # Predict --------------------------------------------------

    def _raw(self, X: Any) -> NDArray[np.float64]:
        """Raw predictions, (n_samples, n_outputs)."""
        X = self._check_table(X)
        trees = self._predicting_trees()
        if isinstance(X, np.ndarray):  # a single row is predicted so fast that another call would count
            return trees.predict_raw(X, 1 if X.shape[0] == 1 else resolve_n_jobs(self.n_jobs))
        return raw_of_rows(trees, X, resolve_n_jobs(self.n_jobs))

    def _predicting_trees(self) -> TreeEnsemble:
        """The trees whose values are summed."""
        return self._ensemble

    def _shown_trees(self) -> TreeEnsemble:
        """The trees as they were grown; ValueError for a model of other members."""
        return self._ensemble

    def leaf_features(self, X: ArrayLike) -> csr_matrix:
        """Return the leaves as features of another model: a column for each, 1 where a row falls into it.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        CSR matrix of shape (n_samples, n_leaves)
            Leaves are counted over all trees, those of the first tree first.

        References
        ----------
        Moosmann, Triggs & Jurie (2006), "Fast discriminative visual codebooks using randomized clustering forests".
        """
        self._check_fitted()
        return leaf_features(self._shown_trees(), self._leaves(X))

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return forest_needs(self, shape)

    def _leaves(self, X: Any) -> NDArray[np.int32]:
        """The leaf of each row in each tree, (n_samples, n_trees)."""
        return self._leaves_of(self._check_table(X))

    def _leaves_of(self, table: Any) -> NDArray[np.int32]:
        """The same of a row source."""
        n_threads = resolve_n_jobs(self.n_jobs)
        trees, table = on_used_columns(self._shown_trees(), table)
        return map_parts(lambda part: trees.apply(part, n_threads), table)


def _targets(y: NDArray[np.float64], n_classes: list[int]) -> NDArray[np.float64]:
    """What to take means of, (n_targets, n_rows): the columns of y, or where one has three or more classes, each."""
    targets = np.atleast_2d(y.T)
    sizes = n_classes if len(n_classes) == len(targets) else [0] * len(targets)
    parts = [of == np.arange(n)[:, None] if n > 2 else of[None] for of, n in zip(targets, sizes, strict=True)]
    return np.ascontiguousarray(np.concatenate(parts), dtype=np.float64)
