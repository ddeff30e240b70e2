"""The ticks of a chart's axes."""

import pytest

from fastens.cli.page.charts import Range


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.03, 0.88, 4, [0.2, 0.4, 0.6, 0.8]),
        (-0.9, 0.4, 2, [-0.5, 0]),
        (12_000, 47_000, 3, [20_000, 30_000, 40_000]),
    ],
)
def test_ticks_are_round_and_more_than_one(low, high, most, ticks):
    assert Range(low, high).ticks(most) == pytest.approx(ticks)
