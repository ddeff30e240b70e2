"""A transformer that converts tables to numeric arrays or CSR matrices, for tools that need them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from fastens.base import BaseFastens, Capabilities
from fastens.engine.parts import RowSource, as_array, own_parts
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, TextChoice
from fastens.params.rules import ANYTHING, FLAG, one_of, parameter
from fastens.params.types import ColumnChoice
from fastens.table.answers import transforms_streams
from fastens.table.columns.expanded import Words
from fastens.table.encoder import InputEncoder


@transforms_streams
@with_parameters
class TableEncoder(TransformerMixin, BaseFastens):
    """Transformer of tables with text, categories and dates to arrays or CSR matrices of numbers.

    Estimators of fastens accept such tables directly. Use this transformer before estimators of other libraries, or
    with tools of scikit-learn that convert the table first and fail, such as `RFECV`, `SequentialFeatureSelector` and
    `OneVsOneClassifier`. Each category is replaced by its position in the sorted categories of its column, so trees
    treat categories as ordered numbers. Dates become days since 1970, and missing values become NaN.

    Parameters
    ----------
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns to treat as categorical. "from_dtype" selects the category, enum, string and boolean columns of a data
        frame. If None, no column is categorical.
    text_features : list of names or indices, mask, dict, Texts or None, default=None
        Columns of texts, which become their lengths and the counts of their words (see `Texts`). Lists of numbers
        always become one column for each element, and lists of strings one column for each item.
    missing : {"missing", "category"}, default="missing"
        Encoding of missing values in categorical columns. "missing": NaN. "category": the position after the last
        category.
    unseen : {"missing", "error"}, default="missing"
        Handling of categories that were not seen in `fit`. "missing": NaN. "error": `transform` raises ValueError.
    split_dates : bool, default=False
        If True, columns for the month, the weekday, the hour and similar parts of each date are added.
    n_jobs : int or None, default=None
        Number of threads. If None, use OMP_NUM_THREADS if it is set, otherwise the number of available physical cores.

    Attributes
    ----------
    categories_ : list of length `n_features_in_`
        Categories of each column in the order of their positions, or None for columns of numbers and dates.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : array of shape (n_features,)
        Names of the columns seen during `fit`. Defined only if all names are strings.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens import TableEncoder
    >>> X = pd.DataFrame({"size": [1.5, None, 2.0], "colour": ["red", "blue", "red"]})
    >>> TableEncoder().fit_transform(X)
    array([[1.5, 1. ],
           [nan, 0. ],
           [2. , 1. ]])
    """

    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    missing: str = parameter(one_of("missing", "category"), default="missing")
    unseen: str = parameter(one_of("missing", "error"), default="missing")
    split_dates: bool = parameter(FLAG, default=False)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _capabilities = Capabilities(supports_binned=False)
    _splits_lists = True

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> TableEncoder:
        """Learn the columns and their categories.

        Parameters
        ----------
        {X}
        y : ignored
            Accepted for compatibility with pipelines.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._check_ranks()
        self._read_within_limit(X, None, self._learn_table, weighted=False)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating] | sparse.csr_matrix:
        """Return the table encoded as numbers, with the columns listed by `get_feature_names_out`.

        The result is a CSR matrix for sparse tables and for tables with texts or lists of strings, because such a
        column may become up to `Texts.max_terms` columns (default: 10 000). Then `set_output` must keep its default,
        because data frames are dense. Otherwise, the result is an array.
        """
        rows: Any = self._check_table(X)
        self._check_fitted()
        if any(isinstance(each, Words) for each in self._encoder.expanded.values()):
            parts = [sparse.csr_matrix(part) for _, part in own_parts(rows)]
            return sparse.vstack(parts or [sparse.csr_matrix((0, rows.shape[1]))], format="csr")
        return as_array(rows) if isinstance(rows, RowSource) or self._encoder.expanded else rows

    @property
    def categories_(self) -> list[list[Any] | None]:
        """Categories of each column in the order of their positions, or None for columns of numbers and dates."""
        self._check_fitted()
        return self._encoder.categories

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns; parts of dates are named after their column, a colon and the part."""
        self._check_fitted()
        input_names = _check_feature_names_in(self, input_features)
        if self._encoder.names is None:
            named = InputEncoder(input_names.tolist(), self._encoder.categories)
            named.dates, named.date_parts = self._encoder.dates, self._encoder.date_parts
            named.expanded = self._encoder.expanded
            return np.array(named.part_names(), dtype=object)
        return np.array(self._encoder.part_names(), dtype=object)

    @property
    def _splits_dates(self) -> bool:  # type: ignore[override]
        return self.split_dates

    def _category_options(self) -> Categories:
        """Return the parameters `missing` and `unseen` as a `Categories` record."""
        return Categories(encoding="partition", missing=self.missing, unseen=self.unseen)
