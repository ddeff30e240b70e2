"""Encoder of imported models, which reads tables by the conventions of other libraries, and CatBoost's hash."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from fastens.engine.parts import CONVERTED_BLOCK, ConvertedRows, MappedRows
from fastens.table.columns.factorize import require_state
from fastens.table.columns.numbers import Floats, numbers_of
from fastens.table.encoder import InputEncoder
from fastens.table.tables import Table

# Conventions of columns: zero counts as missing; categories are identified by CatBoost's hash and stored as hashes or
# strings; numeric arrays contain the positions of the categories; inputs are truncated to integers, and these integers
# are the categories.
ZERO_IS_MISSING, HASHED, ARRAY_CODES, TRUNCATED = "zero is missing", "hashed", "array codes", "truncated"
CONVENTIONS = (ZERO_IS_MISSING, HASHED, ARRAY_CODES, TRUNCATED)
# Maximum absolute value that counts as zero in columns where zero means missing.
_ZERO = float(np.float32(1e-35))


class ForeignEncoder(InputEncoder):
    """Encoder that reads tables as another library does.

    Attributes
    ----------
    conventions : dict of int to str
        The convention of each column that has one.
    missing_number : float or None
        A number that counts as missing, compared in single precision.
    absent_is_missing : bool
        True if values that a sparse table does not store are missing instead of 0.
    """

    conventions: dict[int, str]
    missing_number: float | None = None
    absent_is_missing: bool = False

    @classmethod
    def of(
        cls, encoder: InputEncoder, conventions: dict[int, str], missing_number: float | None, *, absent: bool
    ) -> InputEncoder:
        """Return a copy of the encoder with another library's conventions by column; unchanged if there are none.

        `absent` is True if values that a sparse table does not store are missing.
        """
        if not conventions and missing_number is None and not absent:
            return encoder
        foreign = cls.__new__(cls)
        vars(foreign).update(vars(encoder))
        foreign.conventions, foreign.missing_number, foreign.absent_is_missing = conventions, missing_number, absent
        return foreign

    @property
    def changes_numbers(self) -> bool:
        """True if some numbers must be replaced, for example because the other library treats them as missing."""
        has_rules = self.missing_number is not None or self.absent_is_missing
        return has_rules or ZERO_IS_MISSING in self.conventions.values() or super().changes_numbers

    def named(self, categories: list[list[Any] | None]) -> InputEncoder:
        """Return an encoder whose hashed categories are replaced by texts; `categories` are another table's lists."""
        encoder = self.with_more_categories([None] * len(categories))
        for index, convention in self.conventions.items():
            if convention == HASHED:
                texts = {category_hash(value): category_text(value) for value in categories[index] or ()}
                hashed = self.categories[index] or []
                encoder.categories[index] = [
                    texts.get(each, each) if isinstance(each, int) else each for each in hashed
                ]
        return encoder

    def to_state(self) -> dict[str, Any]:
        """Return the state as plain values for saving."""
        conventions = {str(column): convention for column, convention in self.conventions.items()}
        rules = {"missing_number": self.missing_number, "absent_is_missing": self.absent_is_missing}
        return super().to_state() | {"foreign": {"conventions": conventions, **rules}}

    @classmethod
    def of_state(cls, encoder: InputEncoder, state: dict[str, Any]) -> InputEncoder:
        """Return an encoder with the conventions of a saved state; raise ValueError if the state is malformed."""
        number, kinds, conventions = state["missing_number"], encoder.categories, {}
        for name, convention in state["conventions"].items():
            column = int(name)
            categories = kinds[column] if 0 <= column < len(kinds) else None
            require_state(convention in CONVENTIONS and column < len(kinds))
            require_state(convention in (ZERO_IS_MISSING, HASHED) or bool(categories))
            require_state(convention != TRUNCATED or _ascend(categories))
            conventions[column] = convention
        require_state(number is None or type(number) in (int, float))
        return cls.of(encoder, conventions, number, absent=state["absent_is_missing"] is True)

    def _categories_in(self, table: Table, index: int) -> list[Any]:
        """Return a column's categories; a hash becomes the value of the table that has it, if there is one."""
        categories = super()._categories_in(table, index)
        if self.conventions.get(index) != HASHED:
            return categories
        values = {category_hash(value): value for value in table.categories_of(index).present()}
        hashes = [category if isinstance(category, int) else category_hash(category) for category in categories]
        return [values.get(digest, category) for digest, category in zip(hashes, categories, strict=True)]

    def _find_positions(self, table: Table, index: int, out: Floats, unseen: float) -> None:
        """Write each value's position among the categories of column `index` to `out`, or `unseen` for others."""
        convention, categories = self.conventions.get(index), self.categories[index] or []
        is_array = table.names is None and getattr(table.arrays[index], "dtype", np.dtype(object)).kind in "biuf"
        if convention == TRUNCATED or (convention == ARRAY_CODES and is_array):
            numbers = self._marked(np.array(numbers_of(table.column(index), table.name(index))))
            codes = np.arange(len(categories)) if convention == ARRAY_CODES else np.array(categories)
            positions = np.searchsorted(codes, np.trunc(numbers)).clip(max=len(codes) - 1)
            out[:] = np.where(codes[positions] == np.trunc(numbers), positions, unseen)
            out[np.isnan(numbers)] = float(len(categories)) if self.missing_is_category else np.nan
            return
        super()._find_positions(table, index, out, unseen)

    def _marked(self, numbers: Floats) -> Floats:
        """Replace the number that the model treats as missing by NaN, in place, and return the array."""
        if self.missing_number is not None:
            with np.errstate(over="ignore"):
                numbers[numbers.astype(np.float32) == np.float32(self.missing_number)] = np.nan
        return numbers

    def _changed(self, rows: Any) -> Any:
        """Return the rows with NaN for all values that the other library treats as missing."""
        if not self.changes_numbers:
            return rows
        if sparse.issparse(rows) and self.absent_is_missing:
            rows = ConvertedRows(partial(_with_absent, rows), rows.shape)
        elif isinstance(rows, np.ndarray) and rows.size > CONVERTED_BLOCK and not self.date_parts:
            rows = ConvertedRows.of_array(rows)
        if not isinstance(rows, np.ndarray):
            return MappedRows(rows, lambda _, part: self._changed(part), len(self.categories) + self.n_derived)
        rows = rows.copy()
        if self.missing_number is not None:
            numbers = np.flatnonzero(~self.is_categorical)
            rows[:, numbers] = self._marked(rows[:, numbers])
        for column, convention in self.conventions.items():
            if convention == ZERO_IS_MISSING:
                rows[np.abs(rows[:, column]) <= _ZERO, column] = np.nan
        return super()._changed(rows)


def _with_absent(X: Any, rows: Any, columns: Any) -> Floats:
    """Return some rows and columns of a sparse matrix as an array, with NaN for values that it does not store."""
    part = X[rows].tocoo()
    out = np.full(part.shape, np.nan)
    out[part.row, part.col] = part.data
    return out[:, columns]


def _ascend(values: Any) -> bool:
    """Return True if the values are integers below 2**53 in ascending order."""
    return all(type(value) is int and abs(value) < 2**53 for value in values) and sorted(values) == values


# CityHash64, version 1.0 (Pike & Alakuijala 2011); CatBoost identifies categories by its lower 32 bits.
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69
_MASK = (1 << 64) - 1


def category_hash(value: Any) -> int:
    """Return the hash of the text of a category as a signed 32-bit integer; integral floats are written as integers.

    Examples
    --------
    >>> from fastens.exchange.foreign import category_hash
    >>> category_hash("u"), category_hash(3), category_hash(3.0)
    (1981898051, 593172586, 593172586)
    """
    low = city_hash(category_text(value).encode()) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def category_text(value: Any) -> str:
    """Return the text of a category; integral floats are written as integers."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def city_hash(content: bytes) -> int:
    """Return the 64-bit hash of some bytes by CityHash64, by which CatBoost stores categories."""
    n = len(content)
    if n <= 16:
        return _up_to_16(content, n)
    if n <= 32:
        return _up_to_32(content, n)
    return _up_to_64(content, n) if n <= 64 else _longer(content, n)


def _word(content: bytes, at: int, size: int = 8) -> int:
    """Return `size` bytes from index `at` as a little-endian integer."""
    return int.from_bytes(content[at : at + size], "little")


def _rotate(value: int, shift: int) -> int:
    """Return a 64-bit integer whose bits are rotated to the right by `shift` positions."""
    value &= _MASK
    return ((value >> shift) | (value << (64 - shift))) & _MASK if shift else value


def _mix(value: int) -> int:
    """Return the exclusive or of a 64-bit integer and the integer shifted right by 47 bits (CityHash's ShiftMix)."""
    value &= _MASK
    return value ^ (value >> 47)


def _join(low: int, high: int) -> int:
    """Return a 64-bit hash of two 64-bit integers (CityHash's Hash128to64)."""
    a = _mix(((low ^ high) & _MASK) * _MULTIPLIER)
    b = _mix(((high ^ a) & _MASK) * _MULTIPLIER)
    return b * _MULTIPLIER & _MASK


def _up_to_16(s: bytes, n: int) -> int:
    """Return the CityHash64 of the n <= 16 bytes `s`."""
    if n > 8:
        a, b = _word(s, 0), _word(s, n - 8)
        return _join(a, _rotate(b + n, n)) ^ b
    if n >= 4:
        return _join(n + (_word(s, 0, 4) << 3), _word(s, n - 4, 4))
    if n == 0:
        return _K2
    y, z = s[0] + (s[n >> 1] << 8), n + (s[n - 1] << 2)
    return _mix(y * _K2 ^ z * _K3) * _K2 & _MASK


def _up_to_32(s: bytes, n: int) -> int:
    """Return the CityHash64 of the n bytes `s`, where n is 17 to 32."""
    a, b, c, d = _word(s, 0) * _K1, _word(s, 8), _word(s, n - 8) * _K2, _word(s, n - 16) * _K0
    low = _rotate(a - b, 43) + _rotate(c, 30) + d
    return _join(low & _MASK, (a + _rotate(b ^ _K3, 20) - c + n) & _MASK)


def _up_to_64(s: bytes, n: int) -> int:
    """Return the CityHash64 of the n bytes `s`, where n is 33 to 64."""
    first = _half_sums(_word(s, 0) + (n + _word(s, n - 16)) * _K0, (_word(s, 8), _word(s, 16)), _word(s, 24))
    last = _half_sums(_word(s, 16) + _word(s, n - 32), (_word(s, n - 24), _word(s, n - 16)), _word(s, n - 8))
    mixed = _mix((first[0] + last[1]) * _K2 + (last[0] + first[1]) * _K0)
    return _mix(mixed * _K0 + first[1]) * _K2 & _MASK


def _half_sums(a: int, middle: tuple[int, int], z: int) -> tuple[int, int]:
    """Return the two sums of CityHash for half of a text of 33 to 64 bytes, from its words a, `middle` and z."""
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += middle[0]
    c += _rotate(a, 7)
    a += middle[1]
    return a + z, b + _rotate(a, 31) + c


def _weak_hash(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Return a weak hash of 32 bytes from index `at`, seeded by a and b (WeakHashLen32WithSeeds)."""
    w, x, y, z = (_word(s, at + 8 * k) for k in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def _longer(s: bytes, n: int) -> int:
    """Return the CityHash64 of the n bytes `s`, where n is more than 64."""
    x, y, z = _word(s, 0), _word(s, n - 16) ^ _K1, _word(s, n - 56) ^ _K0
    v, w = _weak_hash(s, n - 64, n, y), _weak_hash(s, n - 32, n * _K1, _K0)
    z += _mix(v[1]) * _K1
    x = _rotate(z + x, 39) * _K1
    y = _rotate(y, 33) * _K1
    for at in range(0, (n - 1) & ~63, 64):
        x = _rotate(x + y + v[0] + _word(s, at + 16), 37) * _K1
        y = _rotate(y + v[1] + _word(s, at + 48), 42) * _K1
        x, y, z = (x ^ w[1]) & _MASK, (y ^ v[0]) & _MASK, _rotate(z ^ w[0], 33)
        v, w = _weak_hash(s, at, v[1] * _K1, x + w[0]), _weak_hash(s, at + 32, z + w[1], y)
        z, x = x, z
    return _join((_join(v[0], w[0]) + _mix(y) * _K1 + z) & _MASK, (_join(v[1], w[1]) + x) & _MASK)
