"""CityHash64, version 1.0 (Pike & Alakuijala 2011); CatBoost identifies categories by its lower 32 bits."""

from __future__ import annotations

from typing import Any

_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69
_MASK = (1 << 64) - 1


def category_hash(value: Any) -> int:
    """Return the hash of the text of a category as a signed 32-bit integer; integral floats are written as integers.

    Examples
    --------
    >>> from fastens.table.columns.city_hash import category_hash
    >>> category_hash("u"), category_hash(3), category_hash(3.0)
    (1981898051, 593172586, 593172586)
    """
    low = city_hash(category_text(value).encode()) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def category_text(value: Any) -> str:
    """Return the text of a category; integral floats are written as integers."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def city_hash(content: bytes) -> int:
    """Return the 64-bit hash of some bytes."""
    n = len(content)
    if n <= 16:
        return _up_to_16(content, n)
    if n <= 32:
        return _up_to_32(content, n)
    return _up_to_64(content, n) if n <= 64 else _longer(content, n)


def _word(content: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(content[at : at + size], "little")


def _rotate(value: int, shift: int) -> int:
    value &= _MASK
    return ((value >> shift) | (value << (64 - shift))) & _MASK if shift else value


def _mix(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


def _join(low: int, high: int) -> int:
    a = _mix(((low ^ high) & _MASK) * _MULTIPLIER)
    b = _mix(((high ^ a) & _MASK) * _MULTIPLIER)
    return b * _MULTIPLIER & _MASK


def _up_to_16(s: bytes, n: int) -> int:
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
    a, b, c, d = _word(s, 0) * _K1, _word(s, 8), _word(s, n - 8) * _K2, _word(s, n - 16) * _K0
    low = _rotate(a - b, 43) + _rotate(c, 30) + d
    return _join(low & _MASK, (a + _rotate(b ^ _K3, 20) - c + n) & _MASK)


def _up_to_64(s: bytes, n: int) -> int:
    first = _sums(_word(s, 0) + (n + _word(s, n - 16)) * _K0, (_word(s, 8), _word(s, 16)), _word(s, 24))
    last = _sums(_word(s, 16) + _word(s, n - 32), (_word(s, n - 24), _word(s, n - 16)), _word(s, n - 8))
    found = _mix((first[0] + last[1]) * _K2 + (last[0] + first[1]) * _K0)
    return _mix(found * _K0 + first[1]) * _K2 & _MASK


def _sums(a: int, middle: tuple[int, int], z: int) -> tuple[int, int]:
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += middle[0]
    c += _rotate(a, 7)
    a += middle[1]
    return a + z, b + _rotate(a, 31) + c


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(s, at + 8 * k) for k in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def _longer(s: bytes, n: int) -> int:
    x, y, z = _word(s, 0), _word(s, n - 16) ^ _K1, _word(s, n - 56) ^ _K0
    v, w = _weak(s, n - 64, n, y), _weak(s, n - 32, n * _K1, _K0)
    z += _mix(v[1]) * _K1
    x = _rotate(z + x, 39) * _K1
    y = _rotate(y, 33) * _K1
    for at in range(0, (n - 1) & ~63, 64):
        x = _rotate(x + y + v[0] + _word(s, at + 16), 37) * _K1
        y = _rotate(y + v[1] + _word(s, at + 48), 42) * _K1
        x, y, z = (x ^ w[1]) & _MASK, (y ^ v[0]) & _MASK, _rotate(z ^ w[0], 33)
        v, w = _weak(s, at, v[1] * _K1, x + w[0]), _weak(s, at + 32, z + w[1], y)
        z, x = x, z
    return _join((_join(v[0], w[0]) + _mix(y) * _K1 + z) & _MASK, (_join(v[1], w[1]) + x) & _MASK)
