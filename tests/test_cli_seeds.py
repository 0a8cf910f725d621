"""A seed below 0 is refused by every verb that takes one, before it does anything."""

import pytest

from command_line import refused


@pytest.mark.parametrize("verb", [("train", "digits"), ("evaluate", "run"), ("compare", "run", "other")])
def test_a_seed_is_at_least_0(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*verb, "--seed", "-1") == "error: --seed must be at least 0: got -1."
