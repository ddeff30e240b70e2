"""Fixtures for tests of Bayesian models: published networks."""

from __future__ import annotations

import pytest

from fastens import BayesianNetwork
from reference.network_models import FOLDER


@pytest.fixture
def read_published(request):
    """A published network: from the tests' own folder, or networks/NAME.bif(.gz) of the data folder."""

    def read(name, **parameters):
        if (FOLDER / f"{name}.bif").is_file():
            return BayesianNetwork.read_bif(FOLDER / f"{name}.bif", **parameters)
        found = sorted((request.getfixturevalue("data_folder") / "networks").glob(f"{name}.bif*"))
        if not found:
            pytest.skip(f"the network {name!r} is not in the data folder")
        return BayesianNetwork.read_bif(found[0], **parameters)

    return read
