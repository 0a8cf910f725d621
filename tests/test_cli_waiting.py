"""Threads of a command wait briefly, unless its user chose otherwise."""

import os
import subprocess
import sys

import pytest

TOLD = """
import os, sys
import sincere.cli
from sincere.cli import main
before = "torch" in sys.modules
sys.argv = ["sincere", "recipes", "--json"]
try:
    main()
finally:
    print(before, os.environ.get("GOMP_SPINCOUNT"), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_the_users_choice_stays(given, expected):
    known = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    run = subprocess.run(
        [sys.executable, "-c", TOLD], env=known | given, capture_output=True, text=True, timeout=300, check=True
    )
    # It is read when torch is imported, so nothing may have imported it before.
    assert run.stderr.split() == ["False", expected]
