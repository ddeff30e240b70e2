"""The space that TabArena searches: LightGBM's there, as far as fastens has the parameters."""

from __future__ import annotations

from typing import Any

from tabarena.models.fastens.model import FastensModel
from tabarena.utils.config_utils import CustomAGConfigGenerator

from fastens.tuning.tune import BOOSTING, drawn_trial


def configurations(num_random_configs: int = 200) -> list[dict[str, Any]]:
    """So many configurations, the same at every call."""
    return [drawn_trial(index, (BOOSTING,), 0)[1] for index in range(1, num_random_configs + 1)]


gen_fastens = CustomAGConfigGenerator(model_cls=FastensModel, search_space_func=configurations, manual_configs=[{}])
