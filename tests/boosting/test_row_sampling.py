"""Which rows a round of boosting is grown on: uniform, GOSS, MVS."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import Goss, Mvs
from fastens.boosting.row_sampling import RowSampler, RowSampling

RULES = [
    RowSampling(0.3),
    RowSampling(options=Goss(0.1, 0.2)),
    RowSampling(0.3, Mvs()),
    RowSampling(0.3, Mvs(2.0)),
]


@pytest.fixture(params=RULES, ids=lambda rules: str(rules.options))
def rules(request):
    return request.param


def make_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**63, n).astype(np.uint64)
    return hashes, rng.standard_normal((2, n)).astype(np.float32), rng.random((2, n)).astype(np.float32)


def test_share_and_order(rules):
    hashes, gradients, hessians = make_rows(20_000)
    sample = RowSampler(rules, hashes, None, 5).draw(3, gradients, hessians)
    assert (np.diff(sample.rows.astype(int)) > 0).all()
    assert abs(len(sample.rows) / 20_000 - 0.3) < 0.02


def test_sums_match_all_rows_in_the_mean(rules):
    hashes, gradients, hessians = make_rows(500)
    gradients += 0.3
    sampler, sums = RowSampler(rules, hashes, None, 5), []
    for index in range(600):
        sample = sampler.draw(index, gradients, hessians)
        factors = 1 / 0.3 if sample.factors is None else sample.factors
        sums.append((gradients[0, sample.rows] * factors).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - gradients[0].sum()) < 4 * error


def test_draws_follow_the_rows_not_their_order(rules):
    hashes, gradients, hessians = make_rows(1000)
    order = np.random.default_rng(1).permutation(1000)
    one = RowSampler(rules, hashes, None, 5).draw(0, gradients, hessians)
    other = RowSampler(rules, hashes[order], None, 5).draw(0, gradients[:, order], hessians[:, order])
    assert set(one.rows) == set(order[other.rows])


def test_weights_are_copies(rules):
    hashes, gradients, hessians = make_rows(1000)
    weight = np.random.default_rng(1).integers(1, 4, 1000)
    copies = np.repeat(np.arange(1000), weight)
    weighted = RowSampler(rules, hashes, weight.astype(float), 5).draw(0, gradients, hessians)
    repeated = RowSampler(rules, hashes[copies], None, 5).draw(0, gradients[:, copies], hessians[:, copies])
    np.testing.assert_array_equal(np.unique(copies[repeated.rows]), weighted.rows)
    assert len(repeated.rows) == weight[weighted.rows].sum()
    if weighted.factors is not None:
        np.testing.assert_array_equal(repeated.factors, np.repeat(weighted.factors, weight[weighted.rows]))


def test_rounds_and_seeds_differ(rules):
    hashes, gradients, hessians = make_rows(1000)
    drawn = [RowSampler(rules, hashes, None, s).draw(i, gradients, hessians).rows for s, i in ((5, 0), (5, 1), (6, 0))]
    assert len({tuple(rows) for rows in drawn}) == 3


def test_goss_keeps_the_largest():
    hashes, gradients, hessians = make_rows(1000)
    sample = RowSampler(RULES[1], hashes, None, 0).draw(0, gradients, hessians)
    size = np.abs(gradients * hessians).sum(axis=0)
    top = np.argsort(-size)[:100]
    assert set(top) <= set(sample.rows)
    is_top = np.isin(sample.rows, top)
    np.testing.assert_array_equal(sample.factors, np.where(is_top, np.float32(1), np.float32(0.9 / 0.2)))


def test_goss_draws_among_equals():
    hashes, gradients, _ = make_rows(10_000)
    sample = RowSampler(RULES[1], hashes, None, 0).draw(0, np.sign(gradients[:1]), np.ones((1, 10_000), np.float32))
    assert abs(len(sample.rows) - 2800 - 200) < 200
    assert (sample.factors == 1).sum() == 1000


def test_mvs_draws_by_the_gradient():
    hashes, gradients, hessians = make_rows(10_000)
    gradients[:, :5000] *= 10
    sample = RowSampler(RULES[2], hashes, None, 0).draw(0, gradients, hessians)
    assert (sample.rows < 5000).mean() > 0.65
    assert sample.factors.min() >= 1


def test_one_row_at_least():
    hashes, gradients, hessians = make_rows(3)
    for rules in (RowSampling(1e-12), RowSampling(1e-12, Mvs())):
        assert len(RowSampler(rules, hashes, None, 0).draw(0, gradients, hessians).rows) == 1


def test_a_row_drawn_alone_stands_for_no_other():
    gradients = np.arange(1.0, 9.0, dtype=np.float32)[None]
    sampler = RowSampler(RowSampling(1e-300, options=Mvs()), np.arange(8, dtype=np.uint64), None, 0)
    sample = sampler.draw(0, gradients, np.ones_like(gradients))
    assert sample.rows.shape == (1,)
    np.testing.assert_array_equal(sample.factors, [1.0])


def test_which_rules_draw():
    assert not RowSampling().draws
    assert RowSampling(0.5).draws
    assert not RowSampling(0.5).reweights
    assert RowSampling(options=Goss()).reweights
    assert not RowSampling(options=Goss(0.5, 0.5)).draws
