"""BIF: any network round-trips, the format's corners, and errors that say where."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fastens.bayes.networks.network_data import NetworkData
from fastens.bayes.networks.network_files import format_bif, parse_bif
from reference.network_models import random_network


def assert_same(one, other):
    assert (one.names, one.states, one.parents) == (other.names, other.states, other.parents)
    for table, same in zip(one.tables, other.tables, strict=True):
        np.testing.assert_array_equal(table, same)


@pytest.mark.parametrize("seed", range(5))
def test_any_network_round_trips(seed):
    network = random_network(np.random.default_rng(seed), 8)
    words = [tuple(f"value {value}, (or {value})" for value in values) for values in network.states]
    network = NetworkData(
        tuple(f"variable {name}" for name in network.names), tuple(words), network.parents, network.tables
    )
    assert_same(parse_bif(format_bif(network)), network)


def test_corners_of_the_format():
    text = """
    network "my net" { property version 1.0; property "a { brace }"; }
    /* a comment
       of two lines */ variable A { // and another
      type discrete[2] { low , "quite high" };
      property position = (10, 20);
    }
    variable "B" { type discrete [ 3 ] { 0, 1.5, <=2 }; }
    probability ( A | B ) { default 0.5, 0.5; (1.5) 0.25, 0.75; }
    probability ( B ) { table 1e-3 0.499 0.5; }
    """
    network = parse_bif(text)
    assert network.names == ("A", "B")
    assert network.states == (("low", "quite high"), ("0", "1.5", "<=2"))
    assert network.parents == ((1,), ())
    assert network.tables[0].tolist() == [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]
    assert network.tables[1].tolist() == [0.001, 0.499, 0.5]
    assert_same(parse_bif(format_bif(network)), network)


def test_a_table_of_several_variables_counts_its_own_slowest():
    text = """
    variable A { type discrete [ 2 ] { a, b }; } variable B { type discrete [ 3 ] { c, d, e }; }
    probability ( A ) { table 0.3, 0.7; }
    probability ( B | A ) { table 0.1, 0.2, 0.3, 0.3, 0.6, 0.5; }
    """
    np.testing.assert_array_equal(parse_bif(text).tables[1], [[0.1, 0.3, 0.6], [0.2, 0.3, 0.5]])


A = "variable A { type discrete [ 2 ] { a, b }; } "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"the network must have at least one variable\."),
        ("hello", "expected 'network', 'variable' or 'probability'"),
        ("variable A { type discrete [ 3 ] { a, b }; }", "'A' must list 3 values; it lists 2"),
        (A, "every variable must have a probability; 'A' has none"),
        (A + "probability ( A ) { table 0.5; }", "must hold 2 numbers; it holds 1"),
        (A + "probability ( A ) { table 0.5, x; }", "must hold numbers"),
        (A + "probability ( A ) { table 0.5, 0.6; }", "must each sum to 1; one sums to 1.1"),
        (A + "probability ( A ) { table -0.5, 1.5; }", "must hold probabilities; it holds -0.5"),
        (A + "probability ( A | B ) { }", "declared before it; got 'B'"),
        (A + "probability ( A | A ) { (a) 0.5, 0.5; (b) 0.5, 0.5; }", "parents of 'A' must be different|cycle"),
        (A + "probability ( A ) { table 0.5, 0.5", "';' is missing"),
        (A + "probability ( A ) { table 0.5, 0.5;", "the text ends within a block"),
        (A + "variable C { type discrete [ 1 ] { c }; } probability ( A | C ) { (d) 0.5, 0.5; }", "got 'd'"),
        (A + "variable C { type discrete [ 2 ] { c, d }; } probability ( A | C ) { (d) 0.5, 0.5; }", "a row for each"),
    ],
)
def test_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse_bif(text)


def test_values_that_cannot_be_written():
    network = NetworkData(("a",), (('say "x"', "y"),), ((),), (np.array([0.5, 0.5]),))
    with pytest.raises(ValueError, match="quotation marks"):
        format_bif(network)
    network = NetworkData(("a",), ((1, "1"),), ((),), (np.array([0.5, 0.5]),))
    with pytest.raises(ValueError, match="must have different texts to be written"):
        format_bif(network)


def large_network(rng, n_variables=48, n_cells=130_000):
    """A network of barley's size: 48 variables, some 130 000 cells."""
    sizes = rng.integers(5, 12, n_variables)
    parents, tables, total = [], [], 0
    for node in range(n_variables):
        found = tuple(range(max(0, node - 3), node)) if total < n_cells else tuple(range(max(0, node - 1), node))
        parents.append(found)
        tables.append(rng.dirichlet(np.ones(sizes[node]), [sizes[v] for v in found]))
        total += tables[-1].size
    names = tuple(f"v{index}" for index in range(n_variables))
    states = tuple(tuple(f"s{value}" for value in range(size)) for size in sizes)
    return NetworkData(names, states, tuple(parents), tuple(tables))


@pytest.mark.slow
def test_a_large_network_is_read_fast(rng):
    network = large_network(rng)
    assert network.n_parameters > 100_000
    text = format_bif(network)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = parse_bif(text)
        times.append(time.perf_counter() - start)
    assert_same(found, network)
    assert min(times) < 2  # 0.2 s where nothing else runs
