"""Pictures of networks: boxes keep clear of each other, and edges of boxes that they do not join."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

from fastens.inspection.network_plot import PLAIN, draw_layers
from fastens.inspection.trees import table_text
from reference.boxes import extents, overlaps

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def random_network(rng, n):
    names = [f"{word}{index}" for index, word in enumerate(rng.choice(["a", "a longer name", "x$y$", "z" * 40], n))]
    parents = [
        rng.choice(node, min(node, int(rng.integers(0, 4))), replace=False).tolist() if node else []
        for node in range(n)
    ]
    return names, parents


def random_tables(rng, names, parents):
    states = [[f"value {k}" for k in range(rng.integers(1, 9))] for _ in names]
    texts = []
    for node, found in enumerate(parents):
        shape = [len(states[p]) for p in found]
        table = rng.dirichlet(np.ones(len(states[node])), size=shape)
        texts.append(table_text(states[node], [names[p] for p in found], [states[p] for p in found], table))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("with_tables", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_boxes_and_edges_keep_clear(seed, with_tables):
    rng = np.random.default_rng(seed)
    names, parents = random_network(rng, int(rng.integers(1, 25)))
    tables = random_tables(rng, names, parents) if with_tables else None
    ax = draw_layers(None, names, parents, [PLAIN] * len(names), tables=tables)
    # A table touches the name above it.
    assert set(overlaps(ax)) <= set(zip(names, tables or (), strict=False))
    edges = {patch.get_label(): patch for patch in ax.patches if " -> " in patch.get_label()}
    assert list(edges) == [f"{names[p]} -> {names[c]}" for c, found in enumerate(parents) for p in found]
    boxes = np.array(extents(ax))
    for edge in edges.values():
        way = edge.get_path().interpolated(1).to_polygons(closed_only=False, transform=edge.get_transform())
        points = np.concatenate([np.linspace(a, b, 20) for part in way for a, b in itertools.pairwise(part)])
        inside = (points[:, None] > boxes[:, :2] + 1) & (points[:, None] < boxes[:, 2:] - 1)
        assert not inside.all(axis=2).any()


@pytest.mark.slow
@pytest.mark.parametrize("dpi", [50, 80, 100, 220])
def test_tables_fit_their_boxes_on_any_screen(rng, dpi):
    names, parents = random_network(rng, 8)
    ax = draw_layers(None, names, parents, [PLAIN] * 8, tables=random_tables(rng, names, parents))
    ax.figure.set_dpi(dpi)
    assert len(extents(ax)) == 16  # each holds its text


def test_parents_stand_above_and_a_picture_has_the_axes_given():
    ax = pyplot.figure().subplots()
    assert draw_layers(ax, ["a", "b", "c"], [[], [0], [0, 1]], [PLAIN] * 3) is ax
    height = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert height["a"] > height["b"] > height["c"]


def test_tables_in_words():
    table = np.array([[[1.0, 0.0], [0.004, 0.996]], [[0.25, 0.75], [0.5, 0.5]]])
    text = table_text(["dry", "wet"], ["rain", "sprinkler"], [["no", "yes"], [0.5, 2.0]], table, max_rows=3)
    assert text.splitlines() == [
        "rain sprinkler |  dry  wet",
        "no   0.5       | 1.00 0.00",
        "no   2         | <.01 >.99",
        "yes  0.5       | 0.25 0.75",
        "... 1 more row",
    ]
    assert table_text(["no", "yes"], [], [], np.array([0.2, 0.8])).splitlines() == ["  no  yes", "0.20 0.80"]
    many = table_text(range(20), [], [], np.full(20, 0.05)).splitlines()
    assert many == ["   0    1    2    3    4    5 ...", "0.05 0.05 0.05 0.05 0.05 0.05 ..."]
