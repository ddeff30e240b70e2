"""Write what was measured as a Markdown table, a plot and JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from comparison.measure import Goal, Result

LIBRARIES = [
    *(
        "fastens",
        "lightgbm",
        "xgboost",
        "scikit-learn",
        "catboost",
        "bonsai-gbt",
        "perpetual",
        "ydf",
        "daal4py",
        "numpy",
    )
]


def write(results: list[Result], command: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.md").write_text(markdown(results, command), encoding="utf-8")
    (folder / "peers.json").write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    plot(results, folder / "peers.png")


def markdown(results: list[Result], command: str) -> str:
    parts = ["# fastens and its peers", f"`{command}`", machine(), goals_table(results), libraries_table(results)]
    parts += [labels_table(result) for result in results if result.labels]
    return "\n\n".join(part for part in parts if part) + "\n"


def machine() -> str:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"
    return f"{system}; {', '.join(found)}."


def goals_table(results: list[Result]) -> str:
    rows = [["workload", "measured", "must", "aim", "reached"]]
    for result in results:
        for goal in result.goals:
            reached = result.reached(goal)
            if reached is not None:
                rows.append([result.workload, *told(result, goal, reached), verdict(goal, reached)])
    return table(rows) if len(rows) > 1 else ""


def told(result: Result, goal: Goal, reached: float) -> list[str]:
    if goal.against:
        figures = [f"{reached:.2f}x faster than {goal.against}", f"{goal.must:g}x", f"{goal.aim:g}x"]
    else:
        figures = [number(value, result.unit) for value in (reached, goal.must, goal.aim)]
    return figures


def verdict(goal: Goal, reached: float) -> str:
    sign = 1 if goal.against else -1
    if sign * reached >= sign * goal.aim:
        return "aim"
    return "must" if sign * reached >= sign * goal.must else "no"


def libraries_table(results: list[Result]) -> str:
    """A row per workload, a column per library: the figure, and how many times it is fastens's."""
    peers = list(dict.fromkeys(peer for result in results for peer in result.values))
    rows = [["workload", "unit", *peers]]
    rows += [[result.workload, result.unit, *[cell(result, peer) for peer in peers]] for result in results]
    return table(rows)


def cell(result: Result, peer: str) -> str:
    if peer not in result.values:
        return ""
    figure = number(result.middle(peer))
    if peer == "fastens" or "fastens" not in result.values:
        return figure
    return f"{figure} ({result.middle(peer) / max(result.middle('fastens'), 1e-12):.2f}x)"


def labels_table(result: Result) -> str:
    rows = [[result.workload, *result.values]]
    for i, label in enumerate(result.labels):
        rows.append([label, *[number(values[i]) for values in result.values.values()]])
    return table(rows)


def number(value: float, unit: str = "") -> str:
    return f"{value:.4g} {unit}".strip()


def table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def plot(results: list[Result], path: Path) -> None:
    """One panel per workload, one bar per library; shorter is better."""
    n_columns = 2
    n_rows = -(-len(results) // n_columns)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(13, 2.6 * n_rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(results) :]:
        axis.set_axis_off()
    for axis, result in zip(axes.flat, results, strict=False):
        peers = list(result.values)[::-1]
        colours = ["tab:orange" if peer == "fastens" else "tab:gray" for peer in peers]
        bars = axis.barh(peers, [result.middle(peer) for peer in peers], color=colours)
        axis.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axis.margins(x=0.12)
        axis.set_title(result.workload, fontsize=9)
        axis.set_xlabel(result.unit, fontsize=8)
        axis.tick_params(labelsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
