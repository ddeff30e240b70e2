"""Time Bayesian networks, and pgmpy if it is installed: tables, structures, queries, and reading BIF.

python asv_benchmarks/compare_networks.py                       several minutes on 2 cores; writes networks.md
python asv_benchmarks/compare_networks.py --scale 0.01 --workloads tables
python asv_benchmarks/compare_networks.py --workloads peer      requires pgmpy, and also compares the results
"""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from comparison.measure import interleaved
from fastens import BayesianNetwork
from fastens.bayes.counts.counting import CodedRows, family_counts
from fastens.engine.threads import limited_threads, resolve_n_jobs

HERE = Path(__file__).resolve().parent
Times = dict[str, list[float]]


def make_network(n_variables: int, sizes: tuple[int, int], n_parents: int, seed: int = 0) -> BayesianNetwork:
    """A network in which every variable but the first has up to so many of the ten before it as parents."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(*sizes, n_variables)
    names = [f"v{index}" for index in range(n_variables)]
    parents, tables = {}, {}
    for node, name in enumerate(names):
        near = np.arange(max(0, node - 10), node)
        found = rng.permutation(near)[: rng.integers(1, n_parents + 1)].tolist()
        parents[name] = [names[parent] for parent in found]
        tables[name] = rng.dirichlet(np.full(counts[node], 0.5), [counts[parent] for parent in found])
    states = {name: [f"s{value}" for value in range(count)] for name, count in zip(names, counts, strict=True)}
    return BayesianNetwork.from_tables(states, parents, tables)


def large_network() -> BayesianNetwork:
    """One of barley's size: 48 variables, 117 495 free parameters."""
    return make_network(48, (5, 13), 3, seed=5)


class Pgmpy:
    """What is compared with, of pgmpy 1.1 or later; ImportError where it is not installed."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore")
        import pgmpy
        from pgmpy.causal_discovery import PC
        from pgmpy.inference import CausalInference, VariableElimination
        from pgmpy.models import DiscreteBayesianNetwork, LinearGaussianBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator, LinearGaussianMLE
        from pgmpy.readwrite import BIFReader

        logging.getLogger("pgmpy").setLevel(logging.ERROR)
        self.name = f"pgmpy {pgmpy.__version__}"
        self._network, self._estimator = DiscreteBayesianNetwork, DiscreteBayesianEstimator
        self._reader, self.elimination, self.causal = BIFReader, VariableElimination, CausalInference
        self._gaussian, self._regressions, self._pc = LinearGaussianBayesianNetwork, LinearGaussianMLE, PC

    def fit(self, edges: list[tuple[str, str]], rows: pd.DataFrame) -> Any:
        """Tables smoothed by 1."""
        return self._network(edges).fit(rows, estimator=self._estimator(prior_type="K2"))

    def fit_gaussian(self, edges: list[tuple[str, str]], rows: pd.DataFrame) -> Any:
        """A linear Gaussian network with maximum likelihood estimates."""
        return self._gaussian(edges).fit(rows, estimator=self._regressions(std_estimator="mle"))

    def skeleton(self, rows: pd.DataFrame, **options: Any) -> set[frozenset[str]]:
        """The edges that PC finds, without their directions."""
        model = self._pc(variant="stable", show_progress=False, **options).fit(rows)
        return set(map(frozenset, model.skeleton_.edges()))

    def read(self, path: Path) -> Any:
        """A network from a file."""
        return self._reader(path=str(path)).get_model()


try:
    PEER: Pgmpy | None = Pgmpy()
except ImportError:
    PEER = None
NAME = PEER.name if PEER else "pgmpy"


def kinds_of(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The same values as columns of every kind."""
    categories = rows.astype("category")
    return {
        "categories": categories,
        "strings": rows.astype("str"),
        "shared objects": pd.DataFrame({name: _shared(categories[name]) for name in rows}, dtype=object),
        "objects of their own": pd.DataFrame(
            {name: ["".join([*value, "?"])[:-1] for value in rows[name]] for name in rows}, dtype=object
        ),
        "whole numbers": whole_numbers(rows),
        "whole numbers, as from CSV": pd.concat([column.copy() for _, column in whole_numbers(rows).items()], axis=1),
        "whole numbers of one byte": whole_numbers(rows).astype(np.int8),
    }


def whole_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """The values as numbers from 0 on."""
    return pd.DataFrame({name: rows[name].astype("category").cat.codes.astype(np.int64) for name in rows})


def _shared(column: pd.Series) -> np.ndarray:
    """The values of categories as objects, one for each category."""
    return np.array(column.cat.categories.tolist(), dtype=object)[column.cat.codes]


def fits(cases: list[tuple[str, BayesianNetwork, pd.DataFrame]], repeats: int) -> dict[str, Times]:
    """Fit the tables of given structures, smoothed by 1."""
    out = {}
    for kind, origin, X in cases:
        model = BayesianNetwork(origin.edges_)
        calls = {"fastens": lambda X=X, model=model: model.fit(X)}
        if PEER:
            calls[NAME] = lambda X=X, origin=origin: PEER.fit(origin.edges_, X)
        out[f"fit of tables, {len(X)} rows, {kind}"] = interleaved(calls, repeats)
    return out


def alarm_like(n_rows: float) -> tuple[BayesianNetwork, pd.DataFrame]:
    """A network of 37 variables, the size of alarm, and rows of it as strings."""
    network = make_network(37, (2, 5), 2)
    return network, pd.DataFrame(network.sample(int(n_rows), random_state=0), columns=network.node_names_)


def tables(repeats: int, scale: float) -> dict[str, Times]:
    """Fit tables to many rows, many tables, and arrays."""
    network, many = alarm_like(1_000_000 * scale)
    large = large_network()
    wide = pd.DataFrame(large.sample(int(20_000 * scale), random_state=0), columns=large.node_names_).astype("category")
    cases = [("categories", network, many.astype("category")), ("whole numbers", network, whole_numbers(many))]
    out = fits([*cases, (f"{large.n_parameters_} parameters", large, wide)], repeats)
    rows = many.iloc[: int(200_000 * scale)]
    places = {name: index for index, name in enumerate(network.node_names_)}
    given = BayesianNetwork([(places[parent], places[child]) for parent, child in network.edges_])
    for order, name in (("C", "rows"), ("F", "columns")):
        whole = np.array(whole_numbers(rows), order=order)
        call = {"fastens": lambda whole=whole: given.fit(whole)}
        out[f"fit of tables, {len(rows)} rows, array of whole numbers, {name} together"] = interleaved(call, repeats)
    model = BayesianNetwork(network.edges_).fit(rows)
    codes, parts = model._code_rows(rows), model._network
    n_threads = resolve_n_jobs(None)
    call = {"fastens": lambda: family_counts(CodedRows(codes, parts.sizes, None, n_threads), parts.families)}
    out[f"counts alone, {len(rows)} rows as codes"] = interleaved(call, repeats)
    return out


def kinds(repeats: int, scale: float) -> dict[str, Times]:
    """Fit the same tables to columns of every kind."""
    network, rows = alarm_like(200_000 * scale)
    sizes = [int(n_rows * scale) for n_rows in (200_000, 20_000, 1_000)]
    cases = [(kind, network, X) for n_rows in sizes for kind, X in kinds_of(rows.iloc[:n_rows]).items()]
    return fits(cases, repeats)


def published(repeats: int, scale: float) -> dict[str, Times]:
    """Fit the tables of the published alarm to columns of every kind, and read the published barley."""
    folder = Path(os.environ.get("FASTENS_DATA", HERE.parent.parent / "shared" / "data"), "networks")
    network = BayesianNetwork.read_bif(folder / "alarm.bif")
    rows = pd.DataFrame(network.sample(int(100_000 * scale), random_state=0), columns=network.node_names_)
    out = {}
    for kind, X in kinds_of(rows).items():
        for n_threads in (1, None):
            model = BayesianNetwork(network.edges_, n_jobs=n_threads)
            calls = {"fastens": lambda X=X, model=model: model.fit(X)}
            if PEER:
                calls[NAME] = lambda X=X: PEER.fit(network.edges_, X)
            out[f"alarm, {len(X)} rows, {kind}, n_jobs={n_threads}"] = interleaved(calls, repeats)
    with tempfile.TemporaryDirectory() as unpacked:
        path = Path(unpacked, "barley.bif")
        path.write_bytes(gzip.decompress((folder / "barley.bif.gz").read_bytes()))
        out["read the published barley"] = interleaved({"fastens": lambda: BayesianNetwork.read_bif(path)}, repeats)
    return out


def structures(repeats: int, scale: float) -> dict[str, Times]:
    """Learn structures of 37 variables."""
    network = make_network(37, (2, 5), 2)
    rows = pd.DataFrame(network.sample(int(10_000 * scale), random_state=0), columns=network.node_names_)
    models = {
        "hill-climbing by BIC": BayesianNetwork(),
        "hill-climbing by BDeu": BayesianNetwork(criterion="bdeu"),
        "Chow-Liu tree": BayesianNetwork("chow-liu"),
    }
    return {
        f"{name}, {len(rows)} rows": interleaved({"fastens": lambda model=model: model.fit(rows)}, repeats)
        for name, model in models.items()
    }


def answers(repeats: int, scale: float) -> dict[str, Times]:
    """Ask one query of 37 variables, and the class of many rows."""
    network = make_network(37, (2, 5), 2)
    names, states = network.node_names_, network.states_
    evidence = {names[-1]: states[names[-1]][0], names[20]: states[names[20]][1]}
    calls = {"fastens": lambda: network.query(names[0], evidence)}
    rows = pd.DataFrame(network.sample(int(100_000 * scale), random_state=0), columns=names)
    if PEER:
        peer = PEER.fit(network.edges_, rows)
        calls[NAME] = lambda: PEER.elimination(peer).query([names[0]], evidence, show_progress=False)
    out = {"one query, 37 variables": interleaved(calls, repeats)}
    model = BayesianNetwork(network.edges_, class_name=names[10])
    X, y = rows.drop(columns=names[10]), rows[names[10]]
    model.fit(X, y)
    call = {"fastens": lambda: model.predict_proba(X)}
    out[f"predict_proba, {len(X)} rows, strings"] = interleaved(call, repeats)
    holed = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    call = {"fastens": lambda: model.predict_proba(holed)}
    out[f"predict_proba, {len(X)} rows, a tenth missing"] = interleaved(call, repeats)
    return out


def peer(repeats: int, scale: float) -> dict[str, Times]:
    """Tasks that pgmpy supports as well, with the differences between the results of both."""
    if PEER is None:
        return {}
    network, rows = alarm_like(5_000 * scale)
    names, states = network.node_names_, network.states_
    with tempfile.TemporaryDirectory() as folder:
        network.write_bif(Path(folder, "network.bif"))
        other = PEER.read(Path(folder, "network.bif"))
    evidence = {names[-1]: states[names[-1]][0], names[20]: states[names[20]][1]}
    cause, effect = names[12], names[35]
    action = {cause: states[cause][0]}
    options = {"independence_test": "chi2", "max_parents": 2}

    def distribution(factor: Any) -> list[float]:
        (name,) = factor.variables
        return [factor.get_value(**{name: value}) for value in states[name]]

    def edges(found: Iterable[Iterable[str]]) -> list[bool]:
        return [{one, two} in [set(edge) for edge in found] for one in names for two in names]

    pairs = {
        "one query, 37 variables": (
            lambda: [*network.query(names[0], evidence).values()],
            lambda: distribution(PEER.elimination(other).query([names[0]], evidence, show_progress=False)),
        ),
        "one intervention, 37 variables": (
            lambda: [*network.do(action).query(effect).values()],
            lambda: distribution(PEER.causal(other).query([effect], do=action, show_progress=False)),
        ),
        f"PC, {len(rows)} rows, 37 variables": (
            lambda: edges(BayesianNetwork("pc", **options).fit(rows).edges_),
            lambda: edges(PEER.skeleton(rows, ci_test="chi_square", max_cond_vars=2)),
        ),
        **linear_gaussian(names, network.parents_, int(100_000 * scale)),
    }
    out = {}
    for what, (own, theirs) in pairs.items():
        # Other work on the machine disturbs CPU time less than elapsed time.
        out[what] = interleaved({"fastens": own, NAME: theirs}, repeats, clock=time.process_time)
        out[what]["difference"] = np.abs(np.subtract(own(), theirs(), dtype=float)).ravel().tolist()
    return out


def linear_gaussian(names: list[str], parents: dict[str, list[str]], n_rows: int) -> dict[str, tuple[Any, Any]]:
    """Fits and queries of a linear Gaussian network with the given parents."""
    assert PEER is not None
    rng = np.random.default_rng(0)
    regressions = {name: [*rng.normal(size=1 + len(parents[name])), 1.0] for name in names}
    drawn = BayesianNetwork.from_tables(dict.fromkeys(names), parents, regressions).sample(n_rows, random_state=0)
    rows = pd.DataFrame(drawn.astype(float), columns=names)
    model = BayesianNetwork(parents, continuous_features="from_dtype", smoothing="none").fit(rows)
    other = PEER.fit_gaussian(model.edges_, rows)
    middle = names[len(names) // 2]
    known = rows.iloc[: n_rows // 10].drop(columns=middle)

    def parameters(found: Any) -> list[float]:
        out = []
        for name in names:
            cpd = found.get_cpds(name)
            slopes = dict(zip(cpd.evidence, cpd.beta[1:], strict=True))
            out += [cpd.beta[0], *[slopes[parent] for parent in parents[name]], cpd.std**2]
        return out

    def moments() -> list[list[float]]:
        _, mean, variance = other.predict_probability(known)
        return [[value, variance[0, 0]] for value in mean[:, 0]]

    return {
        f"fit of a linear Gaussian network, {n_rows} rows, {len(names)} variables": (
            lambda: np.concatenate([*model.fit(rows).regressions_.values()]),
            lambda: parameters(PEER.fit_gaussian(model.edges_, rows)),
        ),
        f"mean and variance of a missing number, {len(known)} rows": (
            lambda: model.posterior(middle, known.assign(**{middle: np.nan})[names]),
            moments,
        ),
    }


def files(repeats: int, scale: float) -> dict[str, Times]:
    """Read a network of barley's size from BIF."""
    network = large_network()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.bif")
        network.write_bif(path)
        calls = {"fastens": lambda: BayesianNetwork.read_bif(path)}
        if PEER and scale >= 1:
            calls[NAME] = lambda: PEER.read(path)
        return {f"read BIF, {network.n_parameters_} parameters": interleaved(calls, repeats)}


WORKLOADS = {
    "tables": tables,
    "kinds": kinds,
    "published": published,
    "structures": structures,
    "answers": answers,
    "files": files,
    "peer": peer,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each timing (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the generated rows (default 1)")
    parser.add_argument("--threads", type=int, help="most threads of fastens (default: the cores); pgmpy takes one")
    parser.add_argument("--output", type=Path, default=HERE / "results", help="folder to write to")
    args = parser.parse_args()
    lines = [f"`python asv_benchmarks/compare_networks.py {' '.join(sys.argv[1:])}`".replace(" `", "`"), ""]
    compared = args.workloads == ["peer"]
    header = ["", "fastens", NAME, "", *["largest difference"] * compared]
    lines += [f"# Median milliseconds{' of CPU time' * compared}", "", f"| {' | '.join(header)} |"]
    lines.append("| --- " * len(header) + "|")
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        with limited_threads(args.threads):
            found = WORKLOADS[name](args.repeats, args.scale)
        for what, times in found.items():
            own, peer = (1000 * np.median(times[key]) if key in times else np.nan for key in ("fastens", NAME))
            ratio = f"{peer / own:.1f} x" if peer > 0 else ""
            line = f"| {what} | {own:.3g} | {'' if np.isnan(peer) else f'{peer:.3g}'} | {ratio} |"
            lines.append(line + (f" {max(times['difference']):.1g} |" if compared else ""))
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "networks.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
