"""Numbers as people write them: separators, currencies, percent, units, magnitudes, bounds, parentheses for minus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# A text column is called nearly all numbers when at least this share of its different values are.
NEARLY = 0.8
SPACES = " \u00a0\u2009\u202f"
MINUS = "\u2212"
APOSTROPHES = "'\u2019"
_CODES = (
    "USD EUR GBP JPY CHF CNY RMB INR CAD AUD NZD SGD HKD TWD KRW THB MYR IDR PHP SEK NOK DKK PLN CZK HUF RON BRL MXN "
    "ARS CLP COP ZAR TRY RUB UAH ILS AED SAR EGP NGN KES"
)
_SYMBOL = (
    r"(?:US|AU|CA|NZ|HK|NT|MX|A|C|R|S)?\$|[€£¥₹₽₩₺₴₪฿%]|Rs|Kč|zł|kr|元|円|원|руб|"  # noqa: RUF001
    + "|".join(_CODES.split())
)
# Powers of ten by what stands for them. The short names are exact, those of three letters and more have any case.
_POWERS = {
    word: power
    for power, words in {
        3: "k K thousand thousands tsd tsd. tausend 千",
        4: "万 萬 만",
        5: "lakh lakhs lac lacs",
        6: "M MM mn Mn mln mio mio. million millions millionen millones 百万",
        7: "Cr cr crore crores",
        8: "亿 億 억",
        9: "bn Bn billion billions mrd mrd. mld milliard milliards milliarden",
        12: "tn trillion trillions billionen",
    }.items()
    for word in words.split()
}
# Units that are magnitudes next to a currency or to other magnitudes: £1.2m, but 1.2 m of cloth.
_DOUBTFUL = {"m": 6, "b": 9, "B": 9, "t": 12, "T": 12, "L": 5}
_KNOWN_UNITS = (
    "g kg mg t lb lbs oz m cm mm km mi ft in l ml cl s ms min h hr hrs kw mw kwh mwh hz mhz ghz kb mb gb tb m2 m² km2 "
    "km² sqft ha °c °f bar pa hpa psi mph kmh km/h m/s cc bhp hp ps kmpl mpg year years day days"
)
# The body has digits and separators, which are checked apart. RE2 looks for the shortest lead.
_CELL = (
    r"^(?P<lead>[^0-9]{0,12}?)"
    rf"(?P<body>(?:[0-9]|[.,][0-9])(?:[0-9.,_{APOSTROPHES}{SPACES}]*[0-9.,])?(?:[eE][-+]?[0-9]+)?)"
    r"(?P<tail>(?:[^0-9].{0,30})?)$"
)
_LEAD = re.compile(
    rf"(?P<open>\(?)\s*(?P<bound>[<>≤≥~≈]=?|ca\.?|approx\.?)?\s*(?P<sign>[-+{MINUS}]?)\s*(?P<symbol>{_SYMBOL})?\s*"
    rf"(?P<inner>[-+{MINUS}]?)\s*"
)
_TAIL = re.compile(
    rf"\s*(?P<plus>\+?)\s*(?P<word>[^\W\d_]+\.?)?\s*(?P<symbol>{_SYMBOL})?\s*(?P<last>\+?)\s*"
    r"(?P<unit>(?:[^\W\d_]|[°\"'′″‰²³/])(?:[^\W\d_]|[°²³/·.^* ]|-(?=\w)|(?<=[^\W\d_])[23]|(?<=/)100|(?<=/ )100)*)?"  # noqa: RUF001
    r"(?P<minus>-?)(?P<close>\)?)"
)
_EXPONENT = r"(?:[eE][-+]?[0-9]+)?"
# Decimal and thousands separators, the likelier of those that fit a column first.
SEPARATORS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"), (".", "_")]
_GROUPS = {"": "", ",": ",", ".": r"\.", " ": f"[{SPACES}]", "'": f"[{APOSTROPHES}]", "_": "_"}
_COUNT = r"([0-9]+(?:\.[0-9]+)?)"
# Numbers of two units, by the name of the pair: how they are written, and how many of the second make one of the first.
COMPOUNDS = {
    "ft in": (rf"^{_COUNT} ?(?:'|’|′|ft\.?|feet|foot) ?(?:{_COUNT} ?(?:\"|”|″|''|in\.?|inch|inches)?)?$", 12),  # noqa: RUF001
    "h min": (rf"^{_COUNT} ?(?:h|hr|hrs|hours?|Std\.?) ?(?:{_COUNT} ?(?:m|min|mins|minutes?|Min\.?)?)?$", 60),
    "lb oz": (rf"^{_COUNT} ?(?:lbs?\.?) ?(?:{_COUNT} ?oz\.?)?$", 16),
    "min s": (rf"^{_COUNT} ?(?:m|min|mins|minutes?) ?(?:{_COUNT} ?(?:s|sec|secs|seconds?))?$", 60),
}


@dataclass(frozen=True)
class _Frame:
    """What stands around the digits of a number."""

    symbol: str
    unit: str
    power: int
    is_negative: bool
    is_bound: bool


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
    unit : str
        What follows each number, such as "kg"; two words of `COMPOUNDS` for numbers such as 5 ft 11 in.
    scaled : bool
        Numbers may have a magnitude, such as k, M or bn.
    bounded : bool
        Numbers may have the sign of a bound, such as > or a + behind; it is left out.
    """

    decimal: str = "."
    thousands: str = ""
    symbol: str = ""
    unit: str = ""
    scaled: bool = False
    bounded: bool = False

    def __str__(self) -> str:
        if self.unit in COMPOUNDS:
            return "1 {} 2 {}".format(*self.unit.split())
        text = f"1{self.thousands}234{self.decimal}5" + ("k" if self.scaled else "")
        text = f"{text}%" if self.symbol == "%" else f"{self.symbol}{text}"
        return f"{text} {self.unit}" if self.unit else text

    @property
    def remarks(self) -> str:
        """What a person should know of how the numbers are read."""
        said = [f"in {self.unit.split()[1]}"] if self.unit in COMPOUNDS else []
        said += ["magnitudes such as k, M, bn or 万 are multiplied"] if self.scaled else []
        said += ["signs of bounds such as > and + are left out"] if self.bounded else []
        return "".join(f"; {text}" for text in said)

    def fits(self, cells: pa.StringArray) -> pa.BooleanArray:
        """Which cells are numbers in this format."""
        if self.unit in COMPOUNDS:
            return pc.fill_null(pc.match_substring_regex(_trimmed(cells), pattern=COMPOUNDS[self.unit][0]), False)
        split = _Split(cells)
        return pc.and_(split.fits(self), pc.fill_null(_bodies_fit(split.bodies, self), False))

    def parse(self, cells: pa.StringArray) -> pa.DoubleArray:
        """The numbers; all cells must fit, or be missing."""
        if self.unit in COMPOUNDS:
            pattern, factor = COMPOUNDS[self.unit]
            named = pattern.replace("([", "(?P<a>[", 1).replace("([", "(?P<b>[", 1)
            parts = pc.extract_regex(_trimmed(cells), pattern=named)
            major, minor = (pc.struct_field(parts, name) for name in "ab")
            minor = pc.if_else(pc.equal(minor, ""), "0", minor)
            return pc.add(pc.multiply(major.cast(pa.float64()), float(factor)), minor.cast(pa.float64()))
        split = _Split(cells)
        body = split.bodies
        if self.thousands:
            body = pc.replace_substring_regex(body, pattern=_GROUPS[self.thousands], replacement="")
        if self.decimal != ".":
            body = pc.replace_substring(body, pattern=self.decimal, replacement=".")
        if self.scaled:  # as an exponent, so that 4.35M is rounded once
            powers = split.take([f"e{frame.power}" if frame.power else "" for frame in split.read(self)])
            body = pc.binary_join_element_wise(body, powers, "")
        values = body.cast(pa.float64())
        return pc.if_else(split.take([f.is_negative for f in split.read(self)]), pc.negate(values), values)


class _Split:
    """Cells as bodies of digits and what is around them, of which each different one is read once."""

    def __init__(self, cells: pa.StringArray) -> None:
        parts = pc.extract_regex(_trimmed(cells), pattern=_CELL)
        self.bodies = pc.struct_field(parts, "body")
        around = pc.binary_join_element_wise(pc.struct_field(parts, "lead"), pc.struct_field(parts, "tail"), "\0")
        coded = pc.if_else(pc.is_null(parts), None, around).dictionary_encode()
        self._codes = coded.indices
        self.frames = [_frame(text) for text in coded.dictionary.to_pylist()]
        counts = np.bincount(self._codes.drop_null().to_numpy(), minlength=len(self.frames))
        self.counts: NDArray[np.intp] = counts

    def take(self, values: list) -> pa.Array:
        """The value of each cell's frame."""
        return pa.array(values or [None]).take(self._codes) if values else pa.nulls(len(self._codes), pa.bool_())

    def read(self, style: NumberFormat) -> list[_Frame]:
        """The frames as a format reads them."""
        return [_in_context(frame, style) or _NO_FRAME for frame in self.frames]

    def fits(self, style: NumberFormat) -> pa.BooleanArray:
        """Which cells have a frame of the format. A unit or percent sign must stand at every number but zero.

        This is because 0.5 and 50%, or 5 and 5 kg, may be of different units.
        """
        read = [_in_context(frame, style) for frame in self.frames]
        fits = [frame is not None and _allows(style, frame) for frame in read]
        found = pc.fill_null(self.take(fits), False)
        if style.symbol != "%" and not style.unit:
            return found
        bare = pc.fill_null(self.take([frame == _NO_FRAME for frame in read]), False)
        return pc.or_(found, pc.and_(bare, pc.fill_null(pc.equal(self.bodies, "0"), False)))


_NO_FRAME = _Frame("", "", 0, False, False)


@lru_cache(maxsize=1 << 14)
def _frame(text: str) -> _Frame | None:
    """What stands around a number, its lead and its tail between a zero byte; None where it is no number."""
    lead, tail = (pattern.fullmatch(part) for pattern, part in zip((_LEAD, _TAIL), text.split("\0"), strict=True))
    if lead is None or tail is None or (lead["open"] == "(") != (tail["close"] == ")"):
        return None
    signs = [sign for sign in (lead["open"], lead["sign"], lead["inner"], tail["minus"]) if sign]
    symbols = {symbol for symbol in (lead["symbol"], tail["symbol"]) if symbol}
    word, unit = tail["word"] or "", (tail["unit"] or "").strip()
    word, power = _power(word)
    if word and re.fullmatch(_SYMBOL, word.removesuffix(".")) and not tail["symbol"]:
        symbols.add(word.removesuffix("."))
        word = ""
    unit = word + ("" if unit.startswith("/") else " ") * bool(word and unit) + unit
    if len(signs) > 1 or len(symbols) > 1 or (word and tail["symbol"]):
        return None
    is_bound = bool(lead["bound"] or tail["plus"] or tail["last"])
    is_negative = any(sign in ("(", "-", MINUS) for sign in signs)
    return _Frame(symbols.pop() if symbols else "", unit, power, is_negative, is_bound)


def _power(word: str) -> tuple[str, int]:
    """What a word is behind its magnitude, and the power of ten; signs of China, Japan and Korea stand together."""
    for name in (word, word.lower() if len(word) > 2 else word):
        if name in _POWERS:
            return "", _POWERS[name]
    for size in (2, 1):
        if word[:size] in _POWERS and not word[:size].isascii():
            return word[size:], _POWERS[word[:size]]
    return word, 0


def _in_context(frame: _Frame | None, style: NumberFormat) -> _Frame | None:
    """The frame, in which m is a million where the column has a currency or magnitudes."""
    if frame is None or not style.scaled or frame.power or style.unit == frame.unit:
        return frame
    word, _, unit = frame.unit.partition(" ")
    return replace(frame, unit=unit, power=_DOUBTFUL[word]) if word in _DOUBTFUL else frame


def _allows(style: NumberFormat, frame: _Frame) -> bool:
    allowed = [style.symbol] if style.symbol == "%" else [style.symbol, ""]
    return (
        frame.symbol in allowed
        and unit_key(frame.unit) == unit_key(style.unit)
        and (style.scaled or not frame.power)
        and (style.bounded or not frame.is_bound)
    )


def unit_key(unit: str) -> str:
    """A unit by which it is compared: of any case but for mW and MW, without the s of several and a last full stop."""
    text = unit.removesuffix(".").replace(" ", "")
    text = text if text[:1] in ("m", "M") else text.casefold()
    return text.removesuffix("s") if len(text) > 3 else text


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
    for name, (pattern, _) in COMPOUNDS.items():
        if _count(pc.match_substring_regex(cells.slice(0, 1), pattern=pattern)):
            style = NumberFormat(unit=name)
            share = _count(style.fits(cells)) / len(cells)
            # Feet alone, or hours alone, are numbers of one unit.
            n_pairs = _count(pc.match_substring_regex(_trimmed(cells), pattern=pattern.replace(")?$", ")$")))
            if share >= NEARLY and n_pairs:
                return style, share
    split = _Split(cells)
    around = _style_around(split)
    bodies = split.bodies.filter(split.fits(around))
    pairs = sorted(SEPARATORS, key=lambda pair: pair[0] != ",") if prefers_comma else SEPARATORS
    counts = {pair: _count(_bodies_fit(bodies, NumberFormat(*pair))) for pair in pairs}
    best = max(pairs, key=lambda pair: counts[pair])
    return replace(around, decimal=best[0], thousands=best[1]), counts[best] / max(len(cells), 1)


def _style_around(split: _Split) -> NumberFormat:
    """What stands around most of the numbers of a column."""
    frames = [(frame, int(n)) for frame, n in zip(split.frames, split.counts, strict=True) if frame is not None]
    symbols = {frame.symbol for frame, _ in frames} - {""}
    symbol = symbols.pop() if len(symbols) == 1 else ""
    scaled = any(frame.power for frame, _ in frames)
    doubtful = {frame.unit.partition(" ")[0] for frame, _ in frames} & set(_DOUBTFUL)
    scaled = scaled or bool(doubtful and (symbol not in ("", "%")))
    style = NumberFormat(symbol=symbol, scaled=scaled, bounded=any(frame.is_bound for frame, _ in frames))
    units: Counter[str] = Counter()
    for frame, n in frames:
        units[_in_context(frame, style).unit] += n  # type: ignore[union-attr]
    keys: Counter[str] = Counter()
    for unit, n in units.items():
        keys[unit_key(unit)] += n
    key = max(keys, key=lambda name: keys[name], default="")
    if key and keys[key] >= NEARLY * (sum(keys.values()) - 1):
        unit = max((unit for unit in units if unit_key(unit) == key), key=lambda name: units[name])
        return replace(style, unit=unit)
    return style


def mixed_units(cells: pa.StringArray) -> list[str]:
    """The units of numbers that have several, the most frequent first, where one is known; empty for other texts."""
    split = _Split(cells)
    counts: Counter[str] = Counter()
    for frame, n in zip(split.frames, split.counts, strict=True):
        if frame is not None:
            counts[" ".join(filter(None, [frame.symbol, frame.unit]))] += int(n)
    is_known = any(unit.casefold() in _KNOWN_UNITS.split() or re.fullmatch(_SYMBOL, unit) for unit in counts)
    if not is_known or not 1 < len(counts) <= 12 or sum(counts.values()) < NEARLY * len(cells):
        return []
    return [unit or "none" for unit, _ in counts.most_common()]


def leading_zeros(cells: pa.Array | pa.ChunkedArray) -> bool:
    """True if a cell has digits only and begins with a zero that is not the number 0: it is a code, not a number."""
    return bool(pc.any(pc.match_substring_regex(cells, pattern=r"^\s*0[0-9]+\s*$")).as_py())


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


def _count(mask: pa.BooleanArray) -> int:
    return pc.sum(mask).as_py() or 0


def _trimmed(cells: pa.StringArray) -> pa.StringArray:
    """Cells without blanks around them, and without the full stop of Rs. before digits, which is no decimal sign."""
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    trimmed = pc.utf8_trim(cells.cast(pa.string()), characters=SPACES + "\t")
    return pc.replace_substring_regex(trimmed, pattern=r"^([-(]?)(Rs|Fr|kr)\.", replacement=r"\1\2 ")


def whole_numbers(values: Iterable[pa.Array]) -> bool:
    """Whether all values are whole and exact as 64-bit floats."""
    for part in values:
        limits = pc.min_max(pc.abs(part)).as_py()["max"]
        if limits is not None and not limits < 2**53:
            return False
        if not pc.all(pc.equal(pc.floor(part), part)).as_py() and len(part) > part.null_count:
            return False
    return True
