"""The kinds of models that the commands are tried with, and options that make them quick."""

from __future__ import annotations

from fastens.cli.models.models import FAMILIES, families
from fastens.cli.table.target import CLASSIFICATION, REGRESSION

FEW = {"boosting", "forest", "extra-trees", "bagging", "adaboost"}
# Those of one kind of column, and the columns that they are tried on.
NUMBERS, CATEGORIES = ["rooms", "garden", "large"], ["town", "garden", "large"]
OF_COLUMNS = {
    **dict.fromkeys(("gaussian-nb", "bernoulli-nb", "multinomial-nb", "complement-nb"), NUMBERS),
    **dict.fromkeys(("categorical-nb", "version-space"), CATEGORIES),
}
BOTH = [(name, task) for task in (CLASSIFICATION, REGRESSION) for name in families(task) if name not in OF_COLUMNS]


def quick(name: str) -> tuple[object, ...]:
    """Options for few rounds, members and layers."""
    if name == "cascade":
        return ("--max-layers", 1)
    if FAMILIES[name].is_composed and name != "conformal":
        return ("--members", "tree,forest")
    return ("--n-estimators", 5) if name in FEW else ()
