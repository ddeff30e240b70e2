"""Dates that no calendar has."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from fastens.files.dates import DateFormat

WRITINGS = ("%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d", "%Y%m%d", "%d%m%Y", "%d.%m.%y", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M:%S")


@pytest.mark.parametrize("text", WRITINGS)
def test_days_that_a_month_lacks_are_not_dates(text):
    # Each month of a common year and of a leap year, with the days 1 to 31.
    days = [(year, month, day) for year in (2023, 2024) for month in range(1, 13) for day in range(1, 32)]
    signs = {"%Y": "{0}", "%y": "{3:02d}", "%m": "{1:02d}", "%d": "{2:02d}", "%H": "07", "%M": "05", "%S": "09"}
    pattern = text
    for sign, value in signs.items():
        pattern = pattern.replace(sign, value)
    found = DateFormat(text).parse(pa.array([pattern.format(*day, day[0] % 100) for day in days])).to_pylist()
    for (year, month, day), date in zip(days, found, strict=True):
        try:
            expected = datetime.date(year, month, day)
        except ValueError:
            expected = None
        assert (date if date is None else datetime.date(date.year, date.month, date.day)) == expected
