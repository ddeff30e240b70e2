"""From encoded rows to rounds: statistics of categories, bins, limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.base import TrainingData
from fastens.boosting.rounds import BoostingRules, Rounds, Start
from fastens.boosting.rules import check_parts
from fastens.engine.bins.binning import learn_binning
from fastens.engine.rows.sampling import content_hashes


def start_rounds(model: Any, data: TrainingData, rules: BoostingRules, earlier: Any = None) -> Rounds:
    """Prepare the rounds of a fit; `earlier` is the fitted estimator that it continues."""
    loss, comm = model._loss, data.comm
    loss.join(comm)
    if comm.size > 1:
        check_parts(model, data, rules)
    loss.check_target(data.y)
    hashes = None
    if rules.sampling.draws:
        hashes = content_hashes(data.X, model._target_for_hashing(data.y), rules.n_threads)
    data = model._learn_statistics(data, rules.seed)
    if earlier is None:
        is_categorical = model._is_categorical
        binning = learn_binning(data.X, data.sample_weight, model.max_bins, is_categorical, rules.n_threads, comm)
    else:
        model._check_same_statistics(earlier._statistics_arrays())
        binning = earlier._ensemble.binning
    if rules.linear_l2 is not None and loss.renews_leaves:
        raise ValueError(
            "loss must have a hessian with linear_leaves=True, such as 'squared_error' has, or 'expectile' and "
            f"'log_cosh'; got {model.loss!r}."
        )
    if loss.n_outputs > 1 and data.y.ndim == 2:
        data = data._replace(y=np.asfortranarray(data.y))  # losses read the targets one by one
    start = Start(hashes, None if earlier is None else earlier._ensemble.baseline)
    return Rounds(binning, data, loss, model._growth_rules(), rules, start)
