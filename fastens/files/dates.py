"""Dates as people write them: day, month and year in the order and with the signs of a place."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# With what sign between the parts; the likelier order first, of which a later one counts only where it fits more.
_ORDERS = {".": ("%d.%m.{y}",), "/": ("%m/%d/{y}", "%d/%m/{y}", "%Y/%m/%d"), "-": ("%d-%m-{y}", "%m-%d-{y}")}
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_NAMED = ("%d %b {y}", "%d-%b-{y}", "%b %d, {y}", "%d %B {y}", "%B %d, {y}")
_LOOKS_LIKE_DATE = (
    r"^\s*(\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|\d{1,2}[ -][A-Za-z]{3,9}[ -](\d{4}|\d{2})"
    r"|[A-Za-z]{3,9} \d{1,2}, \d{4})( \d{1,2}:\d{2}(:\d{2})?( [AaPp][Mm])?)?\s*$"
)
SAMPLE = 1000


def date_format(cells: pa.StringArray) -> tuple[str, bool] | None:
    """The `strptime` format that all of these different cells are written in, and whether they could mean other days.

    None where they are no dates. ISO 8601 is not among the formats: readers know it.
    """
    sample = cells.slice(0, SAMPLE)
    if not len(sample) or not pc.all(pc.match_substring_regex(sample, pattern=_LOOKS_LIKE_DATE)).as_py():
        return None
    sign = next((sign for sign in _ORDERS if sign in sample[0].as_py()), "")
    year = "%Y" if pc.all(pc.match_substring_regex(sample, pattern=r"\d{4}")).as_py() else "%y"
    orders = (*_ORDERS.get(sign, ()), *_NAMED)
    found = {}
    for text in (order.format(y=year) + time for order in orders for time in _TIMES):
        if parse_dates(sample, text).null_count == 0 and (dates := parse_dates(cells, text)).null_count == 0:
            found[text] = dates
    if not found:
        return None
    first, *others = found
    return first, any(not found[other].equals(found[first]) for other in others)


def parse_dates(cells: pa.StringArray | pa.ChunkedArray, text: str) -> pa.Array:
    """Dates, or moments where the format has hours; null where a cell does not fit."""
    moments = pc.strptime(pc.utf8_trim_whitespace(cells), format=text, unit="s", error_is_null=True)
    return moments if ":" in text else moments.cast(pa.date32())
