"""How TabArena knows the model."""

from __future__ import annotations

from tabarena.models._method_metadata import MethodMetadata
from tabarena.models._model_info import ModelInfo
from tabarena.models.fastens.hpo import gen_fastens
from tabarena.models.fastens.model import FastensModel

fastens_method_metadata = MethodMetadata.config(
    method="fastens",
    ag_key="FASTENS",
    compute="cpu",
    is_bag=True,
    can_hpo=True,
    config_default="fastens_c1_default_BAG_L1",
    display_name="fastens",
    cache_type="local",
)
fastens_info = ModelInfo(
    model_cls=FastensModel,
    search_space=gen_fastens,
    method_metadata=fastens_method_metadata,
    pip_extra=("fastens",),
)
