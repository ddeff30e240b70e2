"""What a rank tells of a fit is told again until it has arrived; questions get the answers to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fastens.distributed.session import Session


def session():
    return Session(0, 1, 60.0, None)


def test_unacknowledged_events_are_reported_again():
    rank = session()
    for number in range(3):
        rank.report("round", number)
    assert [event.content for event in rank.events(0, 0.0)] == [0, 1, 2]
    assert [event.content for event in rank.events(0, 0.0)] == [0, 1, 2]
    assert [event.content for event in rank.events(2, 0.0)] == [2]
    rank.report("end", None)
    assert [tuple(event) for event in rank.events(3, 0.0)] == [(4, "end", None)]
    assert rank.events(4, 0.0) == []


def test_the_last_checkpoint_is_kept():
    rank = session()
    for kind, content in (("checkpoint", b"1"), ("round", 1), ("checkpoint", b"2")):
        rank.report(kind, content)
    assert [tuple(event) for event in rank.events(0, 0.0)] == [(2, "round", 1), (3, "checkpoint", b"2")]


def test_answers_may_come_twice():
    rank = session()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(rank.ask, "callbacks", "a")
        (question,) = rank.events(0, 10.0)
        rank.answer(question.number, True)
        assert first.result(timeout=10) is True
        rank.answer(question.number, True)
        second = pool.submit(rank.ask, "callbacks", "b")
        (question,) = rank.events(question.number, 10.0)
        rank.answer(question.number, False)
        assert second.result(timeout=10) is False
