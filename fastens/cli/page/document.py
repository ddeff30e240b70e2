"""The page around the sections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

from fastens import __version__
from fastens.cli.page.markup import Html, element


def document(title: str, lead: str, notes: Sequence[str], sections: Sequence[Html], *, kicker: str) -> str:
    """A whole page in one file: nothing is loaded from anywhere."""
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Html((files("fastens.cli.page") / "style.css").read_text(encoding="utf-8"))),
    )
    header = element(
        "header",
        element("p", kicker, class_="kicker"),
        element("h1", title),
        element("p", lead, class_="lead"),
        (element("p", note, class_="note") for note in notes),
    )
    footer = element("footer", f"Written by fastens {__version__}. This page loads nothing and sends nothing.")
    main = element("main", header, _contents(sections), sections, footer)
    return "<!doctype html>\n" + element("html", head, element("body", main), lang="en") + "\n"


def _contents(sections: Sequence[Html]) -> Html:
    """Links to the sections, by their headings."""
    found = [re.match(r'<section id="(\w+)"><h2>(.*?)</h2>', part) for part in sections]
    return element("nav", (element("a", Html(match[2]), href=f"#{match[1]}") for match in found if match))
