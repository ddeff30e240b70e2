"""Fixtures for tests of Bayesian models: published networks."""

from __future__ import annotations

import gzip

import pytest

from reference.network_models import FOLDER


@pytest.fixture
def read_published(request):
    """The text of a published network: from the tests' own folder, or networks/NAME.bif(.gz) of the data folder."""

    def read(name):
        if (FOLDER / f"{name}.bif").is_file():
            return (FOLDER / f"{name}.bif").read_text(encoding="utf-8")
        folder = request.getfixturevalue("data_folder") / "networks"
        if (folder / f"{name}.bif").is_file():
            return (folder / f"{name}.bif").read_text(encoding="utf-8")
        if (folder / f"{name}.bif.gz").is_file():
            return gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode()
        pytest.skip(f"the network {name!r} is not in the data folder")

    return read
