"""Threads of a command wait briefly, unless its user chose otherwise."""

import os
import subprocess
import sys

import pytest

# Says what is set at the moment when torch is first asked for, and goes no further.
TOLD = """
import os, sys

class Torch:
    def find_spec(name, *_):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), file=sys.stderr, flush=True)
            os._exit(0)

sys.meta_path.insert(0, Torch)
from sincere.cli import main
print("imported", file=sys.stderr)
sys.argv = ["sincere", "recipes", "--json"]
main()
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
    assert run.stderr.split() == ["imported", expected]
