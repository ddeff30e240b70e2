"""The lattice between S and G: its boxes are the members, its lines the neighbours in the order of generality."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fastens import VersionSpaceClassifier
from fastens.bayes.concepts.conjunctions import all_conjunctions
from reference.boxes import overlaps

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")

SPORT = pd.DataFrame(
    [
        ["sunny", "warm", "normal", "strong", "warm", "same"],
        ["sunny", "warm", "high", "strong", "warm", "same"],
        ["rainy", "cold", "high", "strong", "warm", "change"],
        ["sunny", "warm", "high", "strong", "cool", "change"],
    ],
    columns=["sky", "air", "humidity", "wind", "water", "forecast"],
)
LABELS = np.array(["yes", "yes", "no", "yes"])


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def boxes_and_lines(ax):
    """Texts without their role and line breaks, and the pairs (upper, lower) that lines join."""

    def plain(text):
        return " ".join(text.split()).split(": ")[-1]

    lines = {tuple(map(plain, p.get_label().split(" -> "))) for p in ax.patches if " -> " in p.get_label()}
    return {plain(text.get_text()) for text in ax.texts}, lines


@pytest.mark.slow
@pytest.mark.parametrize("n_examples", [2, 3, 4])
def test_members_and_their_neighbours(n_examples):
    model = VersionSpaceClassifier().fit(SPORT[:n_examples], LABELS[:n_examples]) if n_examples > 2 else None
    if model is None:
        model = VersionSpaceClassifier().fit(SPORT.iloc[[1, 2]], LABELS[[1, 2]])
    ax = model.plot_lattice(max_members=100)
    members = [h for h in all_conjunctions(model._encoder.categories) if h in model]
    texts, lines = boxes_and_lines(ax)
    assert texts == set(map(repr, members))
    assert len(ax.texts) == model.n_hypotheses_ == len(members)
    covers = {(a, b) for a in members for b in members if a > b and not any(a > c > b for c in members)}
    assert lines == {(repr(a), repr(b)) for a, b in covers}
    assert overlaps(ax) == []
    height = {
        text.get_text().split(": ")[-1]: text.get_position()[1] for text in ax.texts if "\n" not in text.get_text()
    }
    assert all(height[a] > height[b] for a, b in lines if {a, b} <= set(height))
    title = f"{len(members)} hypotheses on <sky, air, humidity, wind, water, forecast>"
    assert ax.get_title() == title


def test_boundaries_are_distinguished():
    ax = VersionSpaceClassifier().fit(SPORT, LABELS).plot_lattice()
    texts = [text.get_text() for text in ax.texts]
    assert texts[:2] == ["G: <sunny, ?, ?, ?, ?, ?>", "G: <?, warm, ?, ?, ?, ?>"]
    assert texts[-1] == "S: <sunny, warm, ?, strong, ?, ?>"
    met = VersionSpaceClassifier().fit([["a", "b"], ["a", "c"], ["d", "b"]], [1, 0, 0]).plot_lattice()
    assert [text.get_text() for text in met.texts] == ["S = G: <a, b>"]
    assert met.get_title() == "1 hypothesis"


def test_before_a_positive_example():
    model = VersionSpaceClassifier(categories=[["a", "d", "e"], ["b", "c"]])
    model.partial_fit([["a", "b"], ["a", "c"]], ["no", "no"], classes=["no", "yes"])
    texts, lines = boxes_and_lines(model.plot_lattice())
    assert texts == {"<d, ?>", "<e, ?>", "<d, b>", "<d, c>", "<e, b>", "<e, c>", "<nothing>"}
    assert ("<d, b>", "<nothing>") in lines
    assert ("<d, ?>", "<nothing>") not in lines


def test_large_spaces_show_their_ends(rng):
    X = rng.integers(0, 3, (8, 15))
    X[0] = 0
    model = VersionSpaceClassifier().fit(X, [1] + [0] * 7)
    ax = model.plot_lattice()
    texts = [text.get_text() for text in ax.texts]
    n_general = len(model.general_boundary_)
    assert texts[8] == f"... {n_general - 8} more of G"
    assert texts[9] == f"... {model.n_hypotheses_ - n_general - 1:,} between ..."
    assert texts[10].startswith("S: <")
    assert overlaps(ax) == []


def test_it_needs_boundaries():
    with pytest.raises(ValueError, match="not fitted"):
        VersionSpaceClassifier().plot_lattice()
    with pytest.raises(AttributeError, match="noise must be 0 for the boundaries; with noise, every conjunction has"):
        VersionSpaceClassifier(noise=0.1).fit(SPORT, LABELS).plot_lattice()
    with pytest.raises(ValueError, match="max_members must be a whole number of at least 1; got 0"):
        VersionSpaceClassifier().fit(SPORT, LABELS).plot_lattice(max_members=0)
