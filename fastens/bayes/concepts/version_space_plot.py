"""The version space as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastens.bayes.concepts.conjunctions import ANY, Conjunction, all_conjunctions, space_sizes
from fastens.inspection.lattice_plot import plot_boundaries, plot_lattice
from fastens.inspection.plotting import shortened
from fastens.parameters import whole

MOST_TRIED = 20_000  # conjunctions to go through, before there is a positive example


class DrawsVersionSpace:
    """A classifier with the boundaries of a version space that draws it."""

    def plot_lattice(self, ax: Any = None, *, max_members: int = 40) -> Any:
        """Draw the version space in the order of generality, G on top and S at the bottom, and return the axes.

        Edges lead from a hypothesis down to those with one more constraint. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: a new figure, large enough.
        max_members : int, default=40
            Of larger version spaces S and the first members of G are drawn alone, and how many are between them.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        AttributeError
            Under noise, where every conjunction has a weight and there are no boundaries.

        Examples
        --------
        >>> from fastens import VersionSpaceClassifier
        >>> X = [["sunny", "warm", "strong"], ["rainy", "cold", "strong"]]
        >>> model = VersionSpaceClassifier().fit(X, ["yes", "no"])
        >>> ax = model.plot_lattice()
        >>> [text.get_text() for text in ax.texts][:2]
        ['G: <sunny, ?, ?>', 'G: <?, warm, ?>']
        """
        model: Any = self
        model._check_fitted()
        whole(1).check("max_members", max_members)
        specific, general, n = model.specific_boundary_, model.general_boundary_, model.n_hypotheses_
        title = f"{'' if model.is_exact_ else 'about '}{n:,} {'hypothesis' if n == 1 else 'hypotheses'}"
        if model._encoder.has_own_names:
            title += f" on <{shortened(', '.join(model._encoder.texts), 80)}>"
        between = _between(model, specific, general) if n <= max_members else None
        if between is None:
            return plot_boundaries(specific, general, n - len({*specific, *general}), title=title, ax=ax)
        return plot_lattice(specific, general, between, title=title, ax=ax)


def _between(model: Any, specific: list[Conjunction], general: list[Conjunction]) -> list[Conjunction] | None:
    """The members beside S and G; None where they cannot be listed."""
    if specific[0].values is not None:
        found = _relaxations(specific[0], general)
    elif space_sizes(model._attribute_sizes()).semantic > MOST_TRIED:
        return None
    else:
        found = (h for h in all_conjunctions(model._encoder.categories) if any(g >= h for g in general))
    return [hypothesis for hypothesis in found if hypothesis not in specific and hypothesis not in general]


def _relaxations(specific: Conjunction, general: list[Conjunction]) -> Iterator[Conjunction]:
    """The conjunctions between S and G: every one is reached from S by dropping constraints one after another."""
    seen, waiting = {specific}, [specific]
    while waiting:
        hypothesis = waiting.pop()
        yield hypothesis
        values = hypothesis.values or ()
        for place, value in enumerate(values):
            relaxed = Conjunction((*values[:place], ANY, *values[place + 1 :]))
            if value is not ANY and relaxed not in seen and any(g >= relaxed for g in general):
                seen.add(relaxed)
                waiting.append(relaxed)
