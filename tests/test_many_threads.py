"""Threads that fit, predict, save and load at once do no harm to each other, with the GIL or without."""

from __future__ import annotations

from properties.threads import Stress


def test_threads_side_by_side(tmp_path):
    stress = Stress(tmp_path)
    stress.run([range(12)] * 6)
    assert stress.wrong == []
    assert stress.n_done == [12] * 6


def test_a_wrong_result_is_seen(tmp_path):
    stress = Stress(tmp_path)
    for name in stress.alone:
        stress.alone[name] = stress.alone["GaussianNB"]
    stress.run([range(12)])
    assert stress.wrong
