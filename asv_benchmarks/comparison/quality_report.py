"""What runs on many tables come to: means of ratios, worst tables, ranks with their critical difference, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

from comparison.quality_libraries import PEERS
from comparison.quality_runs import Run
from comparison.report import table

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SIGNIFICANCE = 0.05


class Results:
    """The mean of each measure over a table's splits, libraries in columns; tables where one failed are left out."""

    def __init__(self, runs: list[Run], libraries: Sequence[str], shift: float) -> None:
        frame = pd.DataFrame([run for run in runs if "error" not in run and run["library"] in libraries])
        self.failed = sorted({(run["table"], run["library"], run["error"]) for run in runs if "error" in run})
        self.shift = shift
        self.loss = self._of(frame, "loss", libraries).dropna()
        self.seconds = self._of(frame, "fit_seconds", libraries).loc[self.loss.index]
        self.auc = self._of(frame, "auc", libraries).loc[self.loss.index].dropna() if "auc" in frame else pd.DataFrame()
        self.ece = self._of(frame, "ece", libraries).loc[self.loss.index].dropna() if "ece" in frame else pd.DataFrame()
        self.libraries = list(self.loss.columns)

    @staticmethod
    def _of(frame: pd.DataFrame, measure: str, libraries: Sequence[str]) -> pd.DataFrame:
        found = frame.pivot_table(index="table", columns="library", values=measure, aggfunc="mean", dropna=False)
        return found[[name for name in libraries if name in found]]

    def ratios(self, library: str, others: Sequence[str]) -> pd.Series:
        """Losses over the least of others', both with the shift added: noise-free tables do not decide alone."""
        return (self.loss[library] + self.shift) / (self.loss[list(others)].min(axis=1) + self.shift)

    def over(self, library: str, others: Sequence[str]) -> float:
        """The geometric mean of these."""
        return float(np.exp(np.log(self.ratios(library, others)).mean()))

    def times_over(self, library: str, other: str) -> float:
        """The geometric mean of seconds over another library's."""
        return float(np.exp(np.log(self.seconds[library] / self.seconds[other]).mean()))

    def mean_ranks(self) -> dict[str, float]:
        ranks = rankdata(self.loss.to_numpy(), axis=1)
        return dict(zip(self.libraries, ranks.mean(axis=0), strict=True))

    @property
    def critical_difference(self) -> float:
        """Mean ranks that differ by less may be equal (Nemenyi's test, Demsar 2006)."""
        k, n = len(self.libraries), len(self.loss)
        quantile = studentized_range.ppf(1 - SIGNIFICANCE, k, np.inf) / np.sqrt(2)
        return float(quantile * np.sqrt(k * (k + 1) / (6 * n)))


def summary(results: Results) -> str:
    """A line for each library: loss over each peer's, over the best's, the worst table, ranks, time."""
    peers = [name for name in PEERS if name in results.libraries]
    strict = [name for name in ("LightGBM", "XGBoost") if name in peers]
    heading = [
        "library",
        *(f"loss over {peer}" for peer in peers),
        "loss over the best peer",
        "worst table",
        "mean rank",
    ]
    rows = [[*heading, "fit time over LightGBM", "total fit time, s"]]
    ranks = results.mean_ranks()
    for library in results.libraries:
        others = [name for name in peers if name != library]
        cells = [library, *("" if peer == library else f"{results.over(library, [peer]):.3f}" for peer in peers)]
        cells.append(f"{results.over(library, others):.3f}" if others else "")
        cells.append(worst(results, library, [name for name in strict if name != library]))
        cells.append(f"{ranks[library]:.2f}")
        cells.append(f"{results.times_over(library, 'LightGBM'):.2f}" if "LightGBM" in peers else "")
        rows.append([*cells, f"{results.seconds[library].sum():.1f}"])
        if library == "fastens":
            medians = ("" if peer == library else f"{results.ratios(library, [peer]).median():.3f}" for peer in peers)
            rows.append(["fastens, median of the tables", *medians, *[""] * 5])
    least = f"{results.critical_difference:.2f}"
    note = f"Mean ranks that differ by less than {least} do not differ significantly (Nemenyi test, 5 %)."
    return table(rows) + f"\n\n{note}" if len(results.libraries) > 1 else table(rows)


def worst(results: Results, library: str, others: Sequence[str]) -> str:
    """The table with the largest loss over the better of others."""
    if not others:
        return ""
    ratios = results.ratios(library, others)
    return f"{ratios.max():.3f} {ratios.idxmax()}"


def by_table(results: Results) -> str:
    rows = [["table", *results.libraries]]
    for name, losses in results.loss.iterrows():
        best = losses.min()
        rows.append([str(name), *(f"**{value:.4g}**" if value == best else f"{value:.4g}" for value in losses)])
    return table(rows)


def calibration(results: Results) -> str:
    """Means over the tables of classes: log loss, calibration error, and area under the curve."""
    rows = [["library", "log loss", "calibration error", "AUC"]]
    for library in results.libraries:
        tables = results.ece.index
        cells = [results.loss.loc[tables, library].mean(), results.ece[library].mean(), results.auc[library].mean()]
        rows.append([library, *(f"{value:.4f}" for value in cells)])
    return table(rows)


def pareto(results: Results, path: Path) -> None:
    """Loss over the least on each table against the time of fits; the line joins those that none betters in both."""
    points = {name: (results.seconds[name].sum(), results.over(name, results.libraries)) for name in results.libraries}
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, (seconds, ratio) in points.items():
        axes.scatter(seconds, ratio)
        axes.annotate(name, (seconds, ratio), xytext=(4, 4), textcoords="offset points", fontsize=8)
    front, least = [], np.inf
    for point in sorted(points.values()):
        if point[1] < least:
            front.append(point)
            least = point[1]
    axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="seconds of all fits", ylabel="loss over the least, geometric mean")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
