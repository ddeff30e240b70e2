"""Parsing of dates and times in the orders, separators and languages of different countries."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastens.files.numbers import NEARLY

SAMPLE = 1000
SHAPES = 20  # number of cells from which candidate formats are collected
# Two-digit years belong to the hundred years that end this many years from now, or now if the dates go far back.
_YEARS_AHEAD, _LONG_AGO = 10, 30
# Maximum number of days by which an invalid date, such as February 31, overflows into the next month.
_MAX_DAYS_OVER = 3
_IS_BIRTH = re.compile(r"birth|dob|born|geb|naiss|nacim|nasc", re.IGNORECASE)
# Prefixes of month names in English, German, French, Spanish, Italian and Portuguese.
_MONTHS = (
    *("jan|jän|ene|gen", "feb|fév|fev", "mar|mär|mrz", "apr|avr|abr", "may|mai|mag", "jun|juin|giu"),
    *("juil|jul|lug", "aug|aoû|aou|ago", "sep|set", "oct|okt|out|ott", "nov", "dec|dez|déc|dic"),
)
_WEEKDAYS = (
    "mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday saturday sunday mo di mi do "
    "fr sa so montag dienstag mittwoch donnerstag freitag samstag sonntag lun mer jeu ven sam dim lundi mardi mercredi "
    "jeudi vendredi samedi dimanche mié jue vie sáb dom lunes martes miércoles jueves viernes sábado domingo"
)
# Characters of cells that may be dates; this cheap check rejects most texts.
_SIGNS = r"^[0-9A-Za-zÀ-ÿ .,:/+\-º年月日년월일]{4,40}$"
_MAY_BE = re.compile(
    rf"\d[-/.:]\d|^\s*(?:\d{{6}}|\d{{8}})\b|\d年|\d-?[qw]\d|\bq[1-4]\b|\b(?:{'|'.join(_MONTHS)})", re.IGNORECASE
)
# Formats of dates after `_normalise_cells`, the most likely first. "{s}" stands for the separator of the parts.
_SHAPES = (
    (r"\d{4}([-/.])\d{1,2}\1\d{1,2}", ("%Y{s}%m{s}%d",)),
    (r"\d{1,2}([.])\d{1,2}\1\d{4}", ("%d.%m.%Y",)),
    (r"\d{1,2}([/])\d{1,2}\1\d{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    (r"\d{1,2}([-])\d{1,2}\1\d{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"\d{1,2}([.])\d{1,2}\1\d{2}", ("%d.%m.%y", "%y.%m.%d")),
    (r"\d{1,2}([/])\d{1,2}\1\d{2}", ("%m/%d/%y", "%d/%m/%y", "%y/%m/%d")),
    (r"\d{1,2}([-])\d{1,2}\1\d{2}", ("%d-%m-%y", "%m-%d-%y", "%y-%m-%d")),
    (r"()\d{8}", ("%Y%m%d", "%d%m%Y")),
    (r"()\d{6}", ("%Y%m",)),
    (r"\d{4}([-/])\d{1,2}", ("%Y{s}%m",)),
    (r"\d{1,2}([-/])\d{4}", ("%m{s}%Y",)),
    (r"\d{1,2}( )m\d+ \d{4}", ("%d %b %Y",)),
    (r"\d{1,2}( )m\d+ \d{2}", ("%d %b %y",)),
    (r"m\d+( )\d{1,2} \d{4}", ("%b %d %Y",)),
    (r"m\d+( )\d{4}", ("%b %Y",)),
    (r"m\d+( )\d{2}", ("%b %y",)),
    (r"\d{4}( )m\d+", ("%Y %b",)),
    (r"\d{4}( )m\d+ \d{1,2}", ("%Y %b %d",)),
    (r"\d{4}([- ]?)q[1-4]", ("%Y{s}Q%q",)),
    (r"q[1-4]([-/ ]?)\d{4}", ("Q%q{s}%Y",)),
    (r"\d{4}(-?)w\d{2}", ("%G{s}W%V",)),
)
_CLOCK = r"(?P<clock>\d{1,2}(?P<sign>[:.])\d{2}(?P<seconds>(?P=sign)\d{2})?)(?P<half> [ap]m)?(?P<zone>%z)?"
_ZONE = r"([:.][0-9]{2})(?: ?(?:utc|gmt|z)| ?(?P<sign>[-+])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})?)$"
_HAS_DAY = re.compile("%[dmbYyqVG]")


@dataclass(frozen=True)
class DateFormat:
    """Notation of the dates in a column.

    Attributes
    ----------
    text : str
        Format as in `strptime`. %b matches the name of a month in any language, %q a quarter, %z a time zone.
    first_year : int
        First of the hundred years that two-digit years belong to; 0 if years have four digits.
    """

    text: str
    first_year: int = 0

    @property
    def remarks(self) -> str:
        """Remarks for the user about how the dates are read."""
        said = f"; two-digit years are {self.first_year} to {self.first_year + 99}" if self.first_year else ""
        return said + ("; times are converted to UTC" if self.text.endswith("%z") else "")

    @property
    def has_days(self) -> bool:
        """True if the format is not only a time of day."""
        return _HAS_DAY.search(self.text) is not None

    def parse(self, cells: pa.StringArray | pa.ChunkedArray) -> pa.Array:
        """Return the cells as dates, as timestamps if the format also has hours, or as times of day.

        Cells that do not match the format become null. Times with a time zone are converted to UTC.
        """
        plain, text = _normalise_cells(cells, "%b" in self.text), self.text.removesuffix("%z")
        if "%V" in text:
            return _parse_weeks(plain)
        shift = None
        if text != self.text:
            shift, plain = _split_time_zones(plain)
        for quarter in range(1, 5) if "%q" in text else ():
            plain = pc.replace_substring(plain, pattern=f"q{quarter}", replacement=f"m{3 * quarter - 2}")
        text = text.replace("%b", "m%m").replace("Q%q", "m%m")
        moments = pc.strptime(plain, format=text, unit="s", error_is_null=True)
        if "%d" in text:
            moments = _drop_invalid_days(moments, plain, text)
        if shift is not None:
            moments = pc.subtract(moments, shift)
        if not self.has_days:
            return moments.cast(pa.time32("s"))
        if "%y" in text and self.first_year:
            moments = _shift_centuries(moments, self.first_year)
        return moments if ":" in text or "%H" in text else moments.cast(pa.date32())


def _drop_invalid_days(timestamps: Any, cells: Any, text: str) -> Any:
    """Return the timestamps with null for days that do not exist, which Arrow moves to the next month.

    `cells` are the texts of the timestamps, which were parsed with the format `text`.
    """
    late = pc.and_(pc.less_equal(pc.day(timestamps), _MAX_DAYS_OVER), pc.is_valid(timestamps))
    if not pc.any(late).as_py():
        return timestamps
    before = re.escape(text[: text.index("%d")]).replace("%Y", "[0-9]{4}")
    pattern = "^ *" + re.sub("%[a-zA-Z]", "[0-9]{1,2}", before) + "(?P<day>[0-9]{1,2})"
    days = pc.struct_field(pc.extract_regex(cells, pattern=pattern), "day").cast(pa.int64())
    is_other = pc.fill_null(pc.and_(late, pc.not_equal(days, pc.day(timestamps))), False)
    return pc.if_else(is_other, None, timestamps)


def date_format(cells: pa.StringArray, name: str = "") -> tuple[DateFormat, bool, float] | None:
    """Return the format of most of these distinct cells, True if it is ambiguous, and the fraction of cells that match.

    Returns None if the cells do not hold dates. By the column name, dates of birth are recognised, which are not in the
    future.
    """
    sample = cells.slice(0, SAMPLE)
    first = sample.slice(0, SHAPES).to_pylist()
    if sum(_MAY_BE.search(cell) is not None for cell in first) < NEARLY / 2 * len(first):
        return None
    signs = pc.and_(pc.match_substring_regex(sample, pattern=_SIGNS), pc.match_substring_regex(sample, pattern="[0-9]"))
    if not len(sample) or (pc.sum(signs).as_py() or 0) < NEARLY * len(sample):
        return None
    formats = _candidate_formats(sample)
    n_fitting = {text: len(sample) - DateFormat(text).parse(sample).null_count for text in formats}
    most = max(n_fitting.values(), default=0)
    if most < NEARLY * len(sample) or not most:
        return None
    parsed = {text: DateFormat(text).parse(cells) for text, n in n_fitting.items() if n == most}
    best = max(parsed, key=lambda text: len(cells) - parsed[text].null_count)  # ties go to the first format
    share = 1 - parsed[best].null_count / len(cells)
    alike = [text for text in parsed if parsed[text].null_count == parsed[best].null_count and text[:2] != "%y"]
    is_ambiguous = any(not parsed[text].equals(parsed[best]) for text in alike)
    return DateFormat(best, _infer_first_year(parsed[best], name) if "%y" in best else 0), is_ambiguous, share


def _candidate_formats(sample: pa.StringArray) -> list[str]:
    """Return the formats, as in `strptime`, that the first cells of a sample suggest."""
    formats: dict[str, None] = {}
    for named in (False, True):
        plain = _normalise_cells(sample.slice(0, SHAPES), named)
        for cell, without in zip(plain.to_pylist(), _split_time_zones(plain)[1].to_pylist(), strict=True):
            formats.update(dict.fromkeys(_formats_of_cell(without + ("%z" if cell != without else ""))))
    return list(formats)


def _formats_of_cell(cell: str) -> list[str]:
    """Return the possible formats, as in `strptime`, of a date, a time or both in a cell of `_normalise_cells`."""
    clock = re.fullmatch(rf"(?P<date>.*?)(?P<gap> ?)\b{_CLOCK}", cell)
    time = ""
    if clock is not None:
        sign = clock["sign"]
        time = sign.join(["%I" if clock["half"] else "%H", "%M", *(["%S"] if clock["seconds"] else [])])
        time += (" %p" if clock["half"] else "") + (clock["zone"] or "")
        if not clock["date"] and (sign == ":" or clock["seconds"]):
            dates = _formats_of_date(cell)  # 10.11.12 is more likely a date than a time
            return [*dates, time]
        if clock["gap"] and (day_formats := _formats_of_date(clock["date"])):
            return [f"{date} {time}" for date in day_formats]
    return _formats_of_date(cell)


def _formats_of_date(cell: str) -> list[str]:
    """Return the possible formats, as in `strptime`, of a date without a time in a cell of `_normalise_cells`."""
    for shape, formats in _SHAPES:
        if (match := re.fullmatch(shape, cell)) is not None:
            return [text.replace("{s}", match[1]) for text in formats]
    return []


def _normalise_cells(cells: pa.StringArray | pa.ChunkedArray, has_month_names: bool) -> pa.Array:
    """Return the cells in lower case, without weekdays, filler words and fractions of seconds, with uniform spaces.

    If `has_month_names` is True, names of months become m1 to m12.
    """
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    text = pc.utf8_lower(pc.utf8_trim_whitespace(cells.cast(pa.string())))
    for pattern, replacement in (
        (r"([0-9]:[0-9]{2}:[0-9]{2})[.,][0-9]+", r"\1"),  # fractions of seconds
        (r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2})t", r"\1 "),
        (r"([0-9]{4}) ?[年년] ?([0-9]{1,2}) ?[月월]", r"\1-\2"),
        (r"(-[0-9]{1,2}) ?([0-9]{1,2}) ?[日일]", r"\1-\2"),
        (rf"^({'|'.join(_WEEKDAYS.split())})[,. ]+", ""),
        (r" ?(uhr|h)$", ""),
        (r"([0-9]) ?([ap])\. ?m\.?$", r"\1 \2m"),
        (r"([0-9])([ap]m)\b", r"\1 \2"),
        (r"([0-9]),? (-|um|at|à|a las)? ?([0-9]{1,2}[:.][0-9]{2})", r"\1 \3"),
    ):
        text = pc.replace_substring_regex(text, pattern=pattern, replacement=replacement)
    if not has_month_names:
        return text
    text = pc.replace_substring_regex(text, pattern=r"([0-9])(st|nd|rd|th|er|º)\b", replacement=r"\1")
    text = pc.replace_substring_regex(text, pattern=r"\b(de|del|of)\b", replacement=" ")
    for month, names in enumerate(_MONTHS, 1):
        text = pc.replace_substring_regex(text, pattern=rf"\b({names})[a-zà-ÿ]*", replacement=f" m{month} ")
    text = pc.replace_substring_regex(text, pattern=r"([^:0-9]|[^:][0-9]{2}|^[0-9]{1,4})[ ,./-]+", replacement=r"\1 ")
    text = pc.utf8_trim_whitespace(pc.replace_substring_regex(text, pattern=r"[ ,./]+", replacement=" "))
    return pc.replace_substring_regex(text, pattern=r"^(m\d+ \d{1,2}) ([\d:]{5,8}) (\d{4})$", replacement=r"\1 \3 \2")


def _split_time_zones(cells: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offset of each cell from UTC as a duration in seconds, and the cells without their time zones."""
    parts = pc.extract_regex(cells, pattern=_ZONE.replace("([:.][0-9]{2})", "[:.][0-9]{2}", 1))
    hours, minutes = (
        pc.coalesce(pc.if_else(pc.equal(part := pc.struct_field(parts, name), ""), "0", part), "0").cast(pa.int64())
        for name in ("hours", "minutes")
    )
    seconds = pc.add(pc.multiply(hours, 3600), pc.multiply(minutes, 60))
    seconds = pc.if_else(
        pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), False), pc.negate(seconds), seconds
    )
    pattern = _ZONE.replace("?P<sign>", "").replace("?P<hours>", "").replace("?P<minutes>", "")
    return seconds.cast(pa.duration("s")), pc.replace_substring_regex(cells, pattern=pattern, replacement=r"\1")


def _parse_weeks(cells: pa.Array) -> pa.Array:
    """Return the Monday of the ISO 8601 week in each cell, such as 2024-w05; null for other cells."""

    def monday(cell: str | None) -> datetime.date | None:
        match = re.fullmatch(r"(\d{4})-?w(\d{2})", cell or "")
        try:
            return datetime.date.fromisocalendar(int(match[1]), int(match[2]), 1) if match else None
        except ValueError:
            return None

    coded = cells.dictionary_encode()
    return pa.array([monday(cell) for cell in coded.dictionary.to_pylist()], pa.date32()).take(coded.indices)


def _infer_first_year(timestamps: pa.Array, name: str) -> int:
    """Return the first of the hundred years in which the two-digit years of column `name` lie.

    They end a few years from now, or this year for dates of birth and for columns that go back far.
    """
    now = datetime.date.today().year
    ahead = 0 if _IS_BIRTH.search(name) else _YEARS_AHEAD
    years = pc.year(_shift_centuries(timestamps.cast(pa.timestamp("s")), now + ahead - 99))
    limits = pc.min_max(years).as_py()
    if limits["max"] > now and limits["min"] < now - _LONG_AGO:
        ahead = 0
    return now + ahead - 99


def _shift_centuries(timestamps: pa.Array, first_year: int) -> pa.Array:
    """Return the timestamps shifted by centuries into the hundred years that start with `first_year`."""
    if timestamps.null_count == len(timestamps):
        return timestamps
    values = timestamps.fill_null(0).to_numpy(zero_copy_only=False)
    months = values.astype("datetime64[M]")
    years = months.astype("datetime64[Y]").astype(np.int64) + 1970
    centuries = -((years - first_year) // 100)
    moved = (months + 1200 * centuries).astype("datetime64[s]") + (values - months.astype("datetime64[s]"))
    return pa.array(moved, timestamps.type, mask=np.asarray(timestamps.is_null()))
