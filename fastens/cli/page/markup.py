"""HTML by calls: text is escaped by construction, whatever names and values a table holds."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *content: str | Iterable[str], **attributes: object) -> Html:
    """An element with its content; an attribute's trailing underscore is dropped, other underscores become hyphens."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str | Iterable[str]) -> Html:
    """Pieces one after the other, those that are plain text escaped."""
    parts: list[str] = []
    for piece in content:
        if isinstance(piece, Html):
            parts.append(piece)
        elif isinstance(piece, str):
            parts.append(html.escape(piece))
        else:
            parts.extend(joined(part) for part in piece)
    return Html("".join(parts))


def table(head: list[str], rows: Iterable[list[str]], class_: str | None = None) -> Html:
    """A table; the first cell of every row is its heading."""
    top = element("tr", (element("th", cell, scope="col") for cell in head))
    lines = (
        element("tr", element("th", row[0], scope="row"), (element("td", cell) for cell in row[1:])) for row in rows
    )
    return wide_table(top, lines, class_)


def wide_table(head: Html, rows: Iterable[Html], class_: str | None = None) -> Html:
    """A table of rows made already, that scrolls by itself where it is too wide for the page."""
    whole = element("table", element("thead", head), element("tbody", rows), class_=class_)
    return element("div", whole, class_="wide")
