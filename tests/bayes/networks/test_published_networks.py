"""The published networks: read, written and read again, and asked."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from fastens import BayesianNetwork

# Nodes, edges and free parameters as the Bayesian network repository gives them.
PUBLISHED = {
    "asia": (8, 8, 18),
    "cancer": (5, 4, 10),
    "earthquake": (5, 4, 10),
    "survey": (6, 6, 21),
    "sachs": (11, 17, 178),
    "child": (20, 25, 230),
    "insurance": (27, 52, 1008),
    "water": (32, 66, 10083),
    "alarm": (37, 46, 509),
    "barley": (48, 84, 114005),
    "hailfinder": (56, 66, 2656),
    "hepar2": (70, 123, 1453),
    "win95pts": (76, 112, 574),
    "pathfinder": (109, 195, 72079),
    "andes": (223, 338, 1157),
    "munin": (1041, 1397, 80592),
}
N_ROWS = 5_000


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_round_trip(read_published, name, tmp_path):
    model = read_published(name)
    assert (len(model.node_names_), len(model.edges_), model.n_parameters_) == PUBLISHED[name]
    model.write_bif(tmp_path / "again.bif.gz", name)
    again = BayesianNetwork.read_bif(tmp_path / "again.bif.gz")
    assert (again.states_, again.parents_) == (model.states_, model.parents_)
    for variable, table in model.tables_.items():
        np.testing.assert_array_equal(again.tables_[variable], table)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_answers(read_published, name):
    # What elimination says of the variables is what comes of drawing each after its parents
    model = read_published(name)
    rows = model.sample(N_ROWS, random_state=0)
    rng = np.random.default_rng(0)
    for place in rng.permutation(len(model.node_names_))[:15]:
        for value, probability in model.query(model.node_names_[place]).items():
            deviation = max(np.sqrt(probability * (1 - probability) / N_ROWS), 1 / N_ROWS)
            assert np.mean(rows[:, place] == value) == pytest.approx(probability, abs=5.5 * deviation)
    # One question, and the same row by row, with a fifth of the values known
    row = rows[:1].copy()
    row[:, rng.random(row.shape[1]) < 0.8] = None
    evidence = {name: value for name, value in zip(model.node_names_, row[0], strict=True) if value is not None}
    asked = model.node_names_[int(np.flatnonzero(row[0] == None)[-1])]  # noqa: E711
    found = model.posterior(asked, pd.DataFrame(row, columns=model.node_names_))[0]
    np.testing.assert_allclose(found, list(model.query(asked, evidence).values()), rtol=1e-9, atol=1e-12)


def test_tables_of_cancer_and_earthquake(read_published):
    found = {name: table[..., 0].ravel().tolist() for name, table in read_published("cancer").tables_.items()}
    assert found == {
        "Pollution": [0.9],
        "Smoker": [0.3],
        "Cancer": [0.03, 0.001, 0.05, 0.02],
        "Xray": [0.9, 0.2],
        "Dyspnoea": [0.65, 0.3],
    }
    model = read_published("earthquake")
    assert model.query("Burglary") == pytest.approx({"True": 0.01, "False": 0.99})
    assert model.query("Earthquake") == pytest.approx({"True": 0.02, "False": 0.98})


def test_a_file_is_read_compressed_or_not(read_published, tmp_path):
    model = read_published("asia")
    model.write_bif(tmp_path / "plain.bif")
    with pytest.raises(ValueError, match=r"title must be a text.*got 7"):
        model.write_bif(tmp_path / "none.bif", 7)
    model.write_bif(tmp_path / "small.bif.gz")
    plain = (tmp_path / "plain.bif").read_bytes()
    assert gzip.decompress((tmp_path / "small.bif.gz").read_bytes()) == plain
    (tmp_path / "named_otherwise.bif").write_bytes((tmp_path / "small.bif.gz").read_bytes())
    again = BayesianNetwork.read_bif(tmp_path / "named_otherwise.bif")
    assert again.query("dysp") == model.query("dysp")


@pytest.mark.parametrize(
    "data", [gzip.compress(b"network", mtime=0)[:-6], gzip.compress(b"network", mtime=0)[:12], b"\xff\xfe"]
)
def test_a_file_that_is_not_text(data, tmp_path):
    (tmp_path / "broken.bif.gz").write_bytes(data)
    with pytest.raises(ValueError, match="must be UTF-8 text, plain or compressed with gzip"):
        BayesianNetwork.read_bif(tmp_path / "broken.bif.gz")
