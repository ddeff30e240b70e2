"""What is on the page that a command wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta"}


class Page(HTMLParser):
    """Checks that elements close in order; collects headings, texts, and whatever would be loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.texts, self.loaded, self.seen = [], [], [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def page(path="report.html"):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = Page(text)
    assert found.loaded == []
    assert "nan" not in re.sub(r"<style>.*?</style>|<text.*?</text>|<t[dh].*?</t[dh]>", "", text, flags=re.DOTALL)
    return found
