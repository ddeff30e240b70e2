"""Parsing of numbers with separators, currencies, percent signs, units, magnitudes, bounds and accounting negatives."""

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

# A text column counts as nearly numeric if at least this fraction of its distinct values are numbers.
NEARLY = 0.8
_FEW = 32  # number of cells that are looked at first
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
# Powers of ten by their names. Names of one or two letters are case-sensitive; longer names are not.
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
# The body holds digits and separators, which are checked separately. The lead is matched lazily.
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
# Pairs of decimal and thousands separators, the most likely first.
SEPARATORS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"), (".", "_")]
_GROUPS = {"": "", ",": ",", ".": r"\.", " ": f"[{SPACES}]", "'": f"[{APOSTROPHES}]", "_": "_"}
_COUNT = r"([0-9]+(?:\.[0-9]+)?)"
# Numbers with two units, by the name of the pair: their pattern, and the size of the first unit in terms of the second.
COMPOUNDS = {
    "ft in": (rf"^{_COUNT} ?(?:'|’|′|ft\.?|feet|foot) ?(?:{_COUNT} ?(?:\"|”|″|''|in\.?|inch|inches)?)?$", 12),  # noqa: RUF001
    "h min": (rf"^{_COUNT} ?(?:h|hr|hrs|hours?|Std\.?) ?(?:{_COUNT} ?(?:m|min|mins|minutes?|Min\.?)?)?$", 60),
    "lb oz": (rf"^{_COUNT} ?(?:lbs?\.?) ?(?:{_COUNT} ?oz\.?)?$", 16),
    "min s": (rf"^{_COUNT} ?(?:m|min|mins|minutes?) ?(?:{_COUNT} ?(?:s|sec|secs|seconds?))?$", 60),
}


@dataclass(frozen=True)
class _Frame:
    """Parsed text around the digits of a number."""

    symbol: str
    unit: str
    power: int
    is_negative: bool
    is_bound: bool


@dataclass(frozen=True)
class NumberFormat:
    """Notation of the numbers in a column.

    Attributes
    ----------
    decimal : str
        Decimal separator.
    thousands : str
        Thousands separator; " " stands for all kinds of spaces, and an empty string for none.
    symbol : str
        Currency or "%" before or after the numbers; empty for none.
    unit : str
        Unit after each number, such as "kg"; a key of `COMPOUNDS` for numbers such as 5 ft 11 in.
    scaled : bool
        If True, numbers may have a magnitude, such as k, M or bn.
    bounded : bool
        If True, numbers may have the sign of a bound, such as a leading > or a trailing +, which is ignored.
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
        """Remarks for the user about how the numbers are read."""
        said = [f"in {self.unit.split()[1]}"] if self.unit in COMPOUNDS else []
        said += ["suffixes such as k, M, bn or 万 are multiplied out"] if self.scaled else []
        said += ["signs such as > and + are ignored"] if self.bounded else []
        return "".join(f"; {text}" for text in said)

    def fits(self, cells: pa.StringArray) -> pa.BooleanArray:
        """Return a mask of the cells that are numbers in this format; False for missing cells."""
        if self.unit in COMPOUNDS:
            return pc.fill_null(pc.match_substring_regex(_trim_cells(cells), pattern=COMPOUNDS[self.unit][0]), False)
        split = _Split(cells)
        return pc.and_(split.fits(self), pc.fill_null(_bodies_fit(split.bodies, self), False))

    def parse(self, cells: pa.StringArray) -> pa.DoubleArray:
        """Return the cells as float64 numbers; all cells must fit the format or be missing."""
        if self.unit in COMPOUNDS:
            pattern, factor = COMPOUNDS[self.unit]
            named = pattern.replace("([", "(?P<a>[", 1).replace("([", "(?P<b>[", 1)
            parts = pc.extract_regex(_trim_cells(cells), pattern=named)
            major, minor = (pc.struct_field(parts, name) for name in "ab")
            minor = pc.if_else(pc.equal(minor, ""), "0", minor)
            return pc.add(pc.multiply(major.cast(pa.float64()), float(factor)), minor.cast(pa.float64()))
        split = _Split(cells)
        body = split.bodies
        if self.thousands:
            body = pc.replace_substring_regex(body, pattern=_GROUPS[self.thousands], replacement="")
        if self.decimal != ".":
            body = pc.replace_substring(body, pattern=self.decimal, replacement=".")
        if self.scaled:  # the magnitude is appended as an exponent, so that 4.35M is rounded only once
            powers = split.broadcast([f"e{frame.power}" if frame.power else "" for frame in split.interpret(self)])
            body = pc.binary_join_element_wise(body, powers, "")
        values = body.cast(pa.float64())
        return pc.if_else(split.broadcast([f.is_negative for f in split.interpret(self)]), pc.negate(values), values)


class _Split:
    """Cells split into bodies of digits and surrounding texts; each distinct surrounding text is parsed once."""

    def __init__(self, cells: pa.StringArray) -> None:
        parts = pc.extract_regex(_trim_cells(cells), pattern=_CELL)
        self.bodies = pc.struct_field(parts, "body")
        around = pc.binary_join_element_wise(pc.struct_field(parts, "lead"), pc.struct_field(parts, "tail"), "\0")
        coded = pc.if_else(pc.is_null(parts), None, around).dictionary_encode()
        self._codes = coded.indices
        self.frames = [_parse_frame(text) for text in coded.dictionary.to_pylist()]
        counts = np.bincount(self._codes.drop_null().to_numpy(), minlength=len(self.frames))
        self.counts: NDArray[np.intp] = counts

    def broadcast(self, values: list) -> pa.Array:
        """Return, for each cell, the entry of `values` at the index of its text around the digits in `frames`.

        Cells that are not numbers get null.
        """
        return pa.array(values or [None]).take(self._codes) if values else pa.nulls(len(self._codes), pa.bool_())

    def interpret(self, style: NumberFormat) -> list[_Frame]:
        """Return `frames`, the distinct texts around digits, as this format reads them; _NO_FRAME for invalid texts."""
        return [_interpret_frame(frame, style) or _NO_FRAME for frame in self.frames]

    def fits(self, style: NumberFormat) -> pa.BooleanArray:
        """Return a mask of the cells whose symbol, unit, magnitude and bound the format allows.

        A unit or percent sign must be present at every number except zero, because 0.5 and 50%, or 5 and 5 kg, may have
        different units.
        """
        read = [_interpret_frame(frame, style) for frame in self.frames]
        fits = [frame is not None and _allows(style, frame) for frame in read]
        allowed = pc.fill_null(self.broadcast(fits), False)
        if style.symbol != "%" and not style.unit:
            return allowed
        bare = pc.fill_null(self.broadcast([frame == _NO_FRAME for frame in read]), False)
        return pc.or_(allowed, pc.and_(bare, pc.fill_null(pc.equal(self.bodies, "0"), False)))


_NO_FRAME = _Frame("", "", 0, False, False)


@lru_cache(maxsize=1 << 14)
def _parse_frame(text: str) -> _Frame | None:
    """Return the parsed symbol, unit, magnitude and sign around the digits of a number, or None if invalid.

    `text` holds the texts before and after the digits, separated by a zero byte.
    """
    lead, tail = (pattern.fullmatch(part) for pattern, part in zip((_LEAD, _TAIL), text.split("\0"), strict=True))
    if lead is None or tail is None or (lead["open"] == "(") != (tail["close"] == ")"):
        return None
    signs = [sign for sign in (lead["open"], lead["sign"], lead["inner"], tail["minus"]) if sign]
    symbols = {symbol for symbol in (lead["symbol"], tail["symbol"]) if symbol}
    word, unit = tail["word"] or "", (tail["unit"] or "").strip()
    word, power = _split_magnitude(word)
    if word and re.fullmatch(_SYMBOL, word.removesuffix(".")) and not tail["symbol"]:
        symbols.add(word.removesuffix("."))
        word = ""
    unit = word + ("" if unit.startswith("/") else " ") * bool(word and unit) + unit
    if len(signs) > 1 or len(symbols) > 1 or (word and tail["symbol"]):
        return None
    is_bound = bool(lead["bound"] or tail["plus"] or tail["last"])
    is_negative = any(sign in ("(", "-", MINUS) for sign in signs)
    return _Frame(symbols.pop() if symbols else "", unit, power, is_negative, is_bound)


def _split_magnitude(word: str) -> tuple[str, int]:
    """Return a word without its magnitude, such as k or bn, and the power of ten, 0 without a magnitude.

    Only CJK magnitudes may precede other letters.
    """
    for name in (word, word.lower() if len(word) > 2 else word):
        if name in _POWERS:
            return "", _POWERS[name]
    for size in (2, 1):
        if word[:size] in _POWERS and not word[:size].isascii():
            return word[size:], _POWERS[word[:size]]
    return word, 0


def _interpret_frame(frame: _Frame | None, style: NumberFormat) -> _Frame | None:
    """Return the parsed text around a number as a format reads it; None if `frame` is None.

    If the format is scaled, ambiguous units such as m are read as magnitudes.
    """
    if frame is None or not style.scaled or frame.power or style.unit == frame.unit:
        return frame
    word, _, unit = frame.unit.partition(" ")
    return replace(frame, unit=unit, power=_DOUBTFUL[word]) if word in _DOUBTFUL else frame


def _allows(style: NumberFormat, frame: _Frame) -> bool:
    """Return True if a format allows the symbol, unit, magnitude and bound around a number."""
    allowed = [style.symbol] if style.symbol == "%" else [style.symbol, ""]
    return (
        frame.symbol in allowed
        and unit_key(frame.unit) == unit_key(style.unit)
        and (style.scaled or not frame.power)
        and (style.bounded or not frame.is_bound)
    )


def unit_key(unit: str) -> str:
    """Return the key by which units are compared.

    Case is ignored except for units that begin with m or M (mW and MW differ). A plural s and a final full stop are
    removed.
    """
    text = unit.removesuffix(".").replace(" ", "")
    text = text if text[:1] in ("m", "M") else text.casefold()
    return text.removesuffix("s") if len(text) > 3 else text


def number_format(cells: pa.StringArray, prefers_comma: bool = False) -> tuple[NumberFormat, float]:
    """Return the format that matches most of these distinct cells, and the fraction that matches.

    If "1,234" is ambiguous, the comma counts as a thousands separator, unless other columns have decimal commas.

    Parameters
    ----------
    cells : array of strings
        Distinct values without missing values.
    prefers_comma : bool
        True if other columns of the file use decimal commas.
    """
    for name, (pattern, _) in COMPOUNDS.items():
        if _count(pc.match_substring_regex(cells.slice(0, 1), pattern=pattern)):
            style = NumberFormat(unit=name)
            share = _count(style.fits(cells)) / len(cells)
            # Columns with only feet or only hours are numbers with a single unit.
            n_pairs = _count(pc.match_substring_regex(_trim_cells(cells), pattern=pattern.replace(")?$", ")$")))
            if share >= NEARLY and n_pairs:
                return style, share
    split = _Split(cells)
    around = _infer_frame_format(split)
    bodies = split.bodies.filter(split.fits(around))
    pairs = sorted(SEPARATORS, key=lambda pair: pair[0] != ",") if prefers_comma else SEPARATORS
    counts = {pair: _count(_bodies_fit(bodies, NumberFormat(*pair))) for pair in pairs}
    best = max(pairs, key=lambda pair: counts[pair])
    return replace(around, decimal=best[0], thousands=best[1]), counts[best] / max(len(cells), 1)


def _infer_frame_format(split: _Split) -> NumberFormat:
    """Return the format of the symbol, unit and magnitudes around most numbers, with default separators."""
    frames = [(frame, int(n)) for frame, n in zip(split.frames, split.counts, strict=True) if frame is not None]
    symbols = {frame.symbol for frame, _ in frames} - {""}
    symbol = symbols.pop() if len(symbols) == 1 else ""
    scaled = any(frame.power for frame, _ in frames)
    doubtful = {frame.unit.partition(" ")[0] for frame, _ in frames} & set(_DOUBTFUL)
    scaled = scaled or bool(doubtful and (symbol not in ("", "%")))
    style = NumberFormat(symbol=symbol, scaled=scaled, bounded=any(frame.is_bound for frame, _ in frames))
    units: Counter[str] = Counter()
    for frame, n in frames:
        units[_interpret_frame(frame, style).unit] += n  # type: ignore[union-attr]
    keys: Counter[str] = Counter()
    for unit, n in units.items():
        keys[unit_key(unit)] += n
    key = max(keys, key=lambda name: keys[name], default="")
    if key and keys[key] >= NEARLY * (sum(keys.values()) - 1):
        unit = max((unit for unit in units if unit_key(unit) == key), key=lambda name: units[name])
        return replace(style, unit=unit)
    return style


def may_be_numbers(cells: pa.StringArray) -> bool:
    """Return True unless few of these distinct cells are numbers, with any units and magnitudes.

    Only some cells are examined, which are spread over all, because this runs for every column of texts.
    """
    few = cells.take(pa.array(np.linspace(0, len(cells) - 1, min(len(cells), _FEW)).astype(np.int64)))
    split = _Split(few)
    n_numbers = sum(int(n) for frame, n in zip(split.frames, split.counts, strict=True) if frame is not None)
    n_pairs = (_count(pc.match_substring_regex(_trim_cells(few), pattern=pattern)) for pattern, _ in COMPOUNDS.values())
    return max(n_numbers, *n_pairs) >= NEARLY / 2 * len(few)


def mixed_units(cells: pa.StringArray) -> list[str]:
    """Return the distinct units and symbols of numbers, the most frequent first, with "none" for bare numbers.

    The list is empty unless there are 2 to 12 units, one of them is known, and nearly all cells are numbers.
    """
    split = _Split(cells)
    counts: Counter[str] = Counter()
    for frame, n in zip(split.frames, split.counts, strict=True):
        if frame is not None:
            counts[" ".join(filter(None, [frame.symbol, frame.unit]))] += int(n)
    is_known = any(unit.casefold() in _KNOWN_UNITS.split() or re.fullmatch(_SYMBOL, unit) for unit in counts)
    if not is_known or not 1 < len(counts) <= 12 or sum(counts.values()) < NEARLY * len(cells):
        return []
    return [unit or "none" for unit, _ in counts.most_common()]


def has_leading_zeros(cells: pa.Array | pa.ChunkedArray) -> bool:
    """Return True if a cell has only digits and a leading zero, as codes do, and is not the number 0."""
    return bool(pc.any(pc.match_substring_regex(cells, pattern=r"^\s*0[0-9]+\s*$")).as_py())


def _bodies_fit(bodies: pa.StringArray, style: NumberFormat) -> pa.BooleanArray:
    """Return a mask of the numbers, without units and signs, that match the decimal and thousands separators."""
    decimal = "\\" + style.decimal if style.decimal == "." else style.decimal
    plain = rf"(?:[0-9]+(?:{decimal}[0-9]*)?|{decimal}[0-9]+){_EXPONENT}"
    if not style.thousands:
        return pc.match_substring_regex(bodies, pattern=f"^{plain}$")
    group = _GROUPS[style.thousands]
    # Groups have three digits; in India, groups above the thousands have two. Grouped numbers do not begin with zero.
    indian = rf"|[1-9][0-9]?(?:{group}[0-9]{{2}})+{group}[0-9]{{3}}" if style.thousands == "," else ""
    grouped = rf"(?:[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+{indian})(?:{decimal}[0-9]*)?"
    return pc.match_substring_regex(bodies, pattern=f"^(?:{grouped}|{plain})$")


def _count(mask: pa.BooleanArray) -> int:
    """Return the number of True values."""
    return pc.sum(mask).as_py() or 0


def _trim_cells(cells: pa.StringArray) -> pa.StringArray:
    """Return stripped cells without the full stop of Rs. before digits, which is not a decimal separator."""
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    trimmed = pc.utf8_trim(cells.cast(pa.string()), characters=SPACES + "\t")
    return pc.replace_substring_regex(trimmed, pattern=r"^([-(]?)(Rs|Fr|kr)\.", replacement=r"\1\2 ")


def whole_numbers(values: Iterable[pa.Array]) -> bool:
    """Return True if all values in these arrays are integers below 2**53, which 64-bit floats represent exactly."""
    for part in values:
        limits = pc.min_max(pc.abs(part)).as_py()["max"]
        if limits is not None and not limits < 2**53:
            return False
        if not pc.all(pc.equal(pc.floor(part), part)).as_py() and len(part) > part.null_count:
            return False
    return True
