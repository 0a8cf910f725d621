"""A benchmark says whether it met a target only where the target was set."""

from pathlib import Path

import pytest

from sincere.bench.problem import Problem

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def against_target(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from geometry_speed import against_target

    return against_target


def test_a_target_is_told_where_it_was_set_alone(against_target):
    quick, slow = ({"instrument": "describe", "seconds": seconds, "peak MiB": 500} for seconds in (3, 61))
    assert against_target(quick, Problem(60_000, 128, 10, 0), 2).endswith("met")
    assert against_target(slow, Problem(60_000, 128, 10, 0), 2).endswith("MISSED")
    assert against_target(quick, Problem(2000, 128, 10, 0), 2) is None
    assert against_target(quick, Problem(60_000, 64, 10, 0), 2) is None
    assert against_target(quick, Problem(60_000, 128, 10, 0), 16) is None
    assert against_target({**quick, "instrument": "spectrum"}, Problem(60_000, 128, 10, 0), 2) is None
