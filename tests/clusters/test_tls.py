"""Fits on a Dask cluster with TLS, whose connections stay with the event loops of the workers."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import GradientBoostingClassifier, RandomForestRegressor
from fastens.distributed import DaskTable, dask_worker
from reference.cluster_rows import content

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.cluster
# Of these tests alone, valid until 2120: an authority that vouches for itself.
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbsWFb5ttTBvi41Xg
f67qmu9UQZwzaRClgjCu71KPcK+hRANCAAQJXJJaMvIwcQNTzAT3gl8SmZrd1L9a
J/IVAnCdhVTGC6F5j0jWRnsr8wfPlm4gyFd4zi4lEwTCWj62MbHpxz8y
-----END PRIVATE KEY-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBQjCB6aADAgECAgEBMAoGCCqGSM49BAMCMBAxDjAMBgNVBAMMBXRlc3RzMCAX
DTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAQMQ4wDAYDVQQDDAV0ZXN0
czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAlckloy8jBxA1PMBPeCXxKZmt3U
v1on8hUCcJ2FVMYLoXmPSNZGeyvzB8+WbiDIV3jOLiUTBMJaPrYxsenHPzKjMjAw
MA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFKM4BMYXwclF6wIGerhHG28kWueG
MAoGCCqGSM49BAMCA0gAMEUCIGbAMUbLKCuUGROHdi8Dfq27koRid6WiD3PnCvfD
Ut7OAiEAnv/AVmQh0YWS8cwgM5G0BV1lFQ5OTexnuZucPFIv2+0=
-----END CERTIFICATE-----
"""
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.3).astype(int)


@pytest.fixture
def client(monkeypatch):
    def taken_over(_):
        raise AssertionError("a connection with TLS is not to be taken over")

    monkeypatch.setattr(dask_worker, "_detach_socket", taken_over)
    sides = {
        f"tls_{side}_{part}": pem
        for side in ("client", "scheduler", "worker")
        for part, pem in (("key", KEY), ("cert", CERTIFICATE))
    }
    security = distributed.Security(tls_ca_file=CERTIFICATE, require_encryption=True, **sides)
    setup = {"n_workers": 3, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(protocol="tls://", security=security, **setup) as cluster,
        distributed.Client(cluster, security=security) as found,
    ):
        assert all(address.startswith("tls://") for address in found.nthreads())
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.parametrize("kind", [GradientBoostingClassifier, RandomForestRegressor])
def test_the_model_matches_one_machine(client, tmp_path, kind, n_workers):
    model = kind(n_estimators=5, random_state=1)
    workers = sorted(client.nthreads())[:n_workers]
    spread = DaskTable(da.from_array(X, chunks=(700, 6)), client=client, workers=workers)
    found = content(model.fit(spread, da.from_array(Y, chunks=700)), tmp_path)
    assert found == content(model.fit(X, Y), tmp_path)
