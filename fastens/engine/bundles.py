"""Bundles: features of few codes share a byte of the record.

A histogram costs one addition for each row and byte of its record, however few codes there are. The byte of a bundle
numbers the combinations of codes that rows have in its features. One-hot columns exclude each other, so that any
number of them has hardly more combinations than columns (the case of Ke et al. 2017); but features need not exclude
each other, only have few combinations. Their own histograms are sums of the bundle's, in whole numbers: trees are the
same to the bit, and the codes by column, which rows are divided by, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fastens.engine.binned import BinnedMatrix, Bundles, empty_records
from fastens.engine.kernels.bins import copy_to_records
from fastens.engine.kernels.bundles import note_pairs, number_pairs
from fastens.engine.threads import threads_for

# Features of more codes, that of missing values included, stay alone.
_MOST_CODES = 33
_MOST_COMBINATIONS = 256
# Bundles that a feature is tried with, and rows that tell which fits.
_MOST_OPEN = 16
_SAMPLE_ROWS = 4096
# Where there are fewer rows, or fewer columns are saved, records are not written anew.
_LEAST_ROWS = 4096
_LEAST_SAVED = 0.1
# Summing up a feature's cells from a bundle is work for every node. A tree counts each row a few times and asks some
# tens of nodes, so a feature may be in one combination for so many rows.
_ROWS_PER_MEMBER = 340
_ROW_GRAIN = 50_000


@dataclass
class _Bundle:
    """Some features, the number of each row's combination, and which codes the combinations are."""

    features: list[int]
    numbers: np.ndarray
    codes: np.ndarray  # (n_features, n_combinations)

    def pairs_with(self, codes: np.ndarray, n_codes: int, n_threads: int) -> np.ndarray | None:
        """Combinations that rows have together with the codes of another feature; None for too many."""
        n_threads = threads_for(len(codes), n_threads, _ROW_GRAIN)
        seen = np.zeros((n_threads, self.codes.shape[1] * n_codes), dtype=np.uint8)
        note_pairs(self.numbers, codes, n_codes, seen)
        pairs = np.flatnonzero(seen.any(axis=0))
        return pairs if len(pairs) <= _MOST_COMBINATIONS else None

    def codes_of(self, pairs: np.ndarray, n_codes: int) -> np.ndarray:
        """Which codes such combinations are."""
        before, last = np.divmod(pairs, n_codes)
        return np.vstack([self.codes[:, before], last.astype(np.uint8)])

    def add(self, feature: int, codes: np.ndarray, n_codes: int, pairs: np.ndarray, n_threads: int) -> None:
        """Take a feature in."""
        numbers = np.zeros(self.codes.shape[1] * n_codes, dtype=np.uint8)
        numbers[pairs] = np.arange(len(pairs))
        number_pairs(self.numbers, codes, n_codes, numbers, threads_for(len(codes), n_threads, _ROW_GRAIN))
        self.features.append(feature)
        self.codes = self.codes_of(pairs, n_codes)


def bundled(matrix: BinnedMatrix, n_threads: int = 1) -> BinnedMatrix:
    """Return the matrix with records that are shorter where features of few codes can share bytes.

    Parameters
    ----------
    matrix : BinnedMatrix
        The rows, without bundles.
    n_threads : int
        How many threads there may be.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.binning import learn_binning
    >>> from fastens.engine.bundles import bundled
    >>> X = np.eye(10)[np.arange(5000) % 10]
    >>> matrix = bundled(learn_binning(X).transform(X))
    >>> matrix.bundles.n_codes
    array([10], dtype=int32)
    """
    candidates = np.flatnonzero(matrix.n_codes <= _MOST_CODES)
    too_few = len(candidates) - 1 < _LEAST_SAVED * matrix.n_features
    if matrix.columns.itemsize > 1 or matrix.n_rows < _LEAST_ROWS or too_few:
        return matrix
    plan = _plan(matrix, candidates)
    if len(candidates) - len(plan) < _LEAST_SAVED * matrix.n_features:
        return matrix
    joined = [_join(matrix.columns, group, matrix.n_codes, n_threads) for group in plan]
    return _with_columns(matrix, [bundle for bundles in joined for bundle in bundles], n_threads)


def _plan(matrix: BinnedMatrix, candidates: np.ndarray) -> list[list[int]]:
    """Groups of features, from some of the rows: each goes where it makes the fewest combinations."""
    sample = np.ascontiguousarray(matrix.columns[candidates, :: max(1, matrix.n_rows // _SAMPLE_ROWS)])
    bundles: list[_Bundle] = []
    for feature, codes in zip(candidates.tolist(), sample, strict=True):
        n_codes = int(matrix.n_codes[feature])
        found = [(bundle.pairs_with(codes, n_codes, 1), bundle) for bundle in bundles[-_MOST_OPEN:]]
        fitting = [
            (pairs, bundle)
            for pairs, bundle in found
            if pairs is not None
            and _n_members(bundle.codes_of(pairs, n_codes)) * _ROWS_PER_MEMBER <= matrix.n_rows * len(bundle.features)
        ]
        if not fitting:
            bundles.append(_alone(feature, codes, n_codes))
            continue
        fewest, best = min(fitting, key=lambda pair: len(pair[0]))
        best.add(feature, codes, n_codes, fewest, 1)
    return [bundle.features for bundle in bundles]


def _alone(feature: int, codes: np.ndarray, n_codes: int) -> _Bundle:
    return _Bundle([feature], codes.copy(), np.arange(n_codes, dtype=np.uint8)[None])


def _usual_codes(codes: np.ndarray) -> np.ndarray:
    """Of each feature of a bundle, the code that it has in most of the combinations."""
    width = int(codes.max()) + 1
    places = codes + width * np.arange(len(codes))[:, None]
    return np.bincount(places.ravel(), minlength=width * len(codes)).reshape(-1, width).argmax(axis=1)


def _n_members(codes: np.ndarray) -> int:
    return int((codes != _usual_codes(codes)[:, None]).sum())


def _join(columns: np.ndarray, features: list[int], n_codes: np.ndarray, n_threads: int) -> list[_Bundle]:
    """One bundle of the features, or more if the rows have more combinations than the sample told."""
    bundles = [_alone(features[0], columns[features[0]], int(n_codes[features[0]]))]
    for feature in features[1:]:
        pairs = bundles[-1].pairs_with(columns[feature], int(n_codes[feature]), n_threads)
        if pairs is None:
            bundles.append(_alone(feature, columns[feature], int(n_codes[feature])))
        else:
            bundles[-1].add(feature, columns[feature], int(n_codes[feature]), pairs, n_threads)
    return bundles


def _with_columns(matrix: BinnedMatrix, bundles: list[_Bundle], n_threads: int) -> BinnedMatrix:
    """The matrix with a record column for each bundle, after those of the features that are alone."""
    bundles = [bundle for bundle in bundles if len(bundle.features) > 1]
    in_bundle = np.zeros(matrix.n_features, dtype=bool)
    in_bundle[[feature for bundle in bundles for feature in bundle.features]] = True
    alone = np.flatnonzero(~in_bundle)
    codes = np.concatenate([matrix.columns[alone], *(bundle.numbers[None] for bundle in bundles)])
    records, payload_offset = empty_records(codes.shape, codes.itemsize)
    copy_to_records(codes, records, threads_for(codes.size, n_threads, _ROW_GRAIN))
    return replace(
        matrix, records=records, payload_offset=payload_offset, bundles=_describe(alone, bundles, matrix.n_codes)
    )


def _describe(alone: np.ndarray, bundles: list[_Bundle], n_codes: np.ndarray) -> Bundles:
    n_features, n_alone = len(n_codes), len(alone)
    column_of, usual_code = np.zeros(n_features, dtype=np.int32), np.zeros(n_features, dtype=np.int32)
    column_of[alone] = np.arange(n_alone)
    members: list[np.ndarray] = [np.zeros((0, 2), dtype=np.uint8)] * n_features
    for column, bundle in enumerate(bundles, start=n_alone):
        usual = _usual_codes(bundle.codes)
        column_of[bundle.features], usual_code[bundle.features] = column, usual
        for feature, codes, common in zip(bundle.features, bundle.codes, usual, strict=True):
            others = np.flatnonzero(codes != common)
            members[feature] = np.column_stack([others, codes[others]]).astype(np.uint8)
    return Bundles(
        column_of,
        np.append(n_codes[alone], [bundle.codes.shape[1] for bundle in bundles]).astype(np.int32),
        np.concatenate([*members, np.zeros((1, 2), dtype=np.uint8)]),
        np.append(0, np.cumsum([len(part) for part in members])).astype(np.int32),
        usual_code,
    )
