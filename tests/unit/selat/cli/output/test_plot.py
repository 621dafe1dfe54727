from __future__ import annotations

from selat.cli.output.plot import bars, carried, columns_of


def test_points_fall_into_their_stretch_of_time() -> None:
    points = [(0.0, 2.0), (1.0, 4.0), (9.0, 5.0), (10.0, 7.0)]
    assert columns_of(points, 0.0, 10.0, 5) == [3.0, None, None, None, 6.0]
    assert columns_of([(3.0, 1.0)], 3.0, 3.0, 2) == [1.0, None]


def test_a_value_stands_until_the_next() -> None:
    assert carried([None, 1.0, None, 3.0, None]) == [None, 1.0, 1.0, 3.0, 3.0]


def test_bars_have_eight_steps_in_a_line() -> None:
    assert bars([0.0, 4.0, 8.0, None], 8.0, 1) == [" ▄█"]
    assert bars([4.0, 8.0], 8.0, 2) == [" █", "██"]
    assert bars([1.0], 0.0, 1) == [""]
