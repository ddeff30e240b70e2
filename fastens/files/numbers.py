"""Numbers as people write them: thousands separators, decimal commas, currencies, percent, parentheses for minus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

CURRENCIES = "$€£¥₹₽₩₺₴₪฿"
CODES = ("USD", "EUR", "GBP", "JPY", "CHF", "CNY", "INR", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "BRL")
SPACES = " \u00a0\u2009\u202f"
MINUS = "\u2212"
APOSTROPHES = "'\u2019"
_SYMBOL = rf"[{CURRENCIES}%]|{'|'.join(CODES)}"
# A number with what may stand around it. The body is checked apart, by the separators of the column.
_CELL = (
    rf"^(?P<open>\(?)[{SPACES}]*(?P<sign>[-+{MINUS}]?)[{SPACES}]*(?P<before>{_SYMBOL})?[{SPACES}]*(?P<inner>[-+{MINUS}]?)"
    rf"(?P<body>[0-9.,](?:[0-9.,_{APOSTROPHES}{SPACES}]*[0-9.,])?(?:[eE][-+]?[0-9]+)?)"
    rf"[{SPACES}]*(?P<after>{_SYMBOL})?(?P<close>\)?)$"
)
_PARTS = ("open", "sign", "before", "inner", "after", "close", "body")
_EXPONENT = r"(?:[eE][-+]?[0-9]+)?"
# Decimal and thousands separators, the likelier of those that fit a column first.
SEPARATORS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"), (".", "_")]
_GROUPS = {"": "", ",": ",", ".": r"\.", " ": f"[{SPACES}]", "'": f"[{APOSTROPHES}]", "_": "_"}


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : str
        Decimal separator.
    thousands : str
        Thousands separator, " " for every kind of space; empty for none.
    symbol : str
        A currency or "%" that stands before or after the numbers; empty for none.
    """

    decimal: str = "."
    thousands: str = ""
    symbol: str = ""

    def __str__(self) -> str:
        text = f"1{self.thousands}234{self.decimal}5"
        return f"{text}%" if self.symbol == "%" else f"{self.symbol}{text}"

    def fits(self, cells: pa.StringArray) -> pa.BooleanArray:
        """Which cells are numbers in this format."""
        parts = pc.extract_regex(_trimmed(cells), pattern=_CELL)
        return _and(_is_framed(parts, self.symbol), _bodies_fit(pc.struct_field(parts, "body"), self))

    def parse(self, cells: pa.StringArray) -> pa.DoubleArray:
        """The numbers; all cells must fit, or be missing."""
        parts = pc.extract_regex(_trimmed(cells), pattern=_CELL)
        body = pc.struct_field(parts, "body")
        if self.thousands:
            body = pc.replace_substring_regex(body, pattern=_GROUPS[self.thousands], replacement="")
        if self.decimal != ".":
            body = pc.replace_substring(body, pattern=self.decimal, replacement=".")
        values = body.cast(pa.float64())
        signs = [pc.is_in(pc.struct_field(parts, name), pa.array(["-", MINUS])) for name in ("sign", "inner")]
        negative = pc.or_(pc.or_(*signs), pc.equal(pc.struct_field(parts, "open"), "("))
        return pc.if_else(negative, pc.negate(values), values)


def number_format(cells: pa.StringArray, prefers_comma: bool = False) -> tuple[NumberFormat, float]:
    """The format that most of these different cells are written in, and their share.

    Where "1,234" could be both, the comma is taken for a thousands separator, unless it is the decimal sign elsewhere.

    Parameters
    ----------
    cells : array of strings
        Different values, none missing.
    prefers_comma : bool
        Whether other columns of the file have decimal commas.
    """
    parts = pc.extract_regex(_trimmed(cells), pattern=_CELL)
    symbols = [pc.struct_field(parts, name).drop_null() for name in ("before", "after")]
    found = {symbol for part in symbols for symbol in pc.unique(part).to_pylist()} - {""}
    symbol = found.pop() if len(found) == 1 else ""
    framed = _is_framed(parts, symbol)
    bodies = pc.struct_field(parts, "body").filter(framed)
    pairs = sorted(SEPARATORS, key=lambda pair: pair[0] != ",") if prefers_comma else SEPARATORS
    counts = {pair: _count(_bodies_fit(bodies, NumberFormat(*pair))) for pair in pairs}
    best = max(pairs, key=lambda pair: counts[pair])
    return NumberFormat(*best, symbol), counts[best] / max(len(cells), 1)


def _bodies_fit(bodies: pa.StringArray, style: NumberFormat) -> pa.BooleanArray:
    decimal = "\\" + style.decimal if style.decimal == "." else style.decimal
    plain = rf"(?:[0-9]+(?:{decimal}[0-9]*)?|{decimal}[0-9]+){_EXPONENT}"
    if not style.thousands:
        return pc.match_substring_regex(bodies, pattern=f"^{plain}$")
    group = _GROUPS[style.thousands]
    # Groups of three; in India those above the thousands are of two. No group stands after a leading zero.
    indian = rf"|[1-9][0-9]?(?:{group}[0-9]{{2}})+{group}[0-9]{{3}}" if style.thousands == "," else ""
    grouped = rf"(?:[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+{indian})(?:{decimal}[0-9]*)?"
    return pc.match_substring_regex(bodies, pattern=f"^(?:{grouped}|{plain})$")


def _is_framed(parts: pa.StructArray, symbol: str) -> pa.BooleanArray:
    """Whether parentheses are closed, there is one sign at most, and no symbol but this one, at one place only.

    A percent sign must stand at every number but zero: 0.5 and 50% in one column are of different units.
    """
    field = {name: pc.struct_field(parts, name) for name in _PARTS}
    symbols = pc.binary_join_element_wise(field["before"], field["after"], "")
    allowed = [symbol, ""] if symbol != "%" else [symbol]
    is_allowed = pc.is_in(symbols, pa.array(allowed))
    if symbol == "%":
        is_allowed = pc.or_(is_allowed, pc.equal(field["body"], "0"))
    marks = [pc.not_equal(field[name], "") for name in ("open", "sign", "inner")]
    n_signs = pc.add(pc.add(*(mark.cast(pa.int8()) for mark in marks[:2])), marks[2].cast(pa.int8()))
    is_closed = pc.equal(pc.equal(field["open"], "("), pc.equal(field["close"], ")"))
    return _and(is_allowed, is_closed, pc.less_equal(n_signs, 1))


def _and(*conditions: pa.BooleanArray) -> pa.BooleanArray:
    """All of the conditions; false where a cell does not match at all."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = pc.and_(result, condition)
    return pc.fill_null(result, False)


def _count(mask: pa.BooleanArray) -> int:
    return pc.sum(mask).as_py() or 0


def _trimmed(cells: pa.StringArray) -> pa.StringArray:
    return pc.utf8_trim(cells.cast(pa.string()), characters=SPACES + "\t")


def whole_numbers(values: Iterable[pa.Array]) -> bool:
    """Whether all values are whole and exact as 64-bit floats."""
    for part in values:
        limits = pc.min_max(pc.abs(part)).as_py()["max"]
        if limits is not None and not limits < 2**53:
            return False
        if not pc.all(pc.equal(pc.floor(part), part)).as_py() and len(part) > part.null_count:
            return False
    return True
