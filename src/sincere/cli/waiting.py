"""How threads wait for each other on a CPU that others use too."""

import os

OTHERS_CHOICE = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # whoever has set one of these knows better
TURNS = "2000"


def wait_briefly() -> None:
    """Let threads of torch sleep after some microseconds of waiting in a loop; to be called before torch is imported.

    GNU's OpenMP, which torch's builds for Linux bring along, has a thread wait for some milliseconds in a loop first.
    On a CPU with other work that loop takes the time of the very thread it waits for. See docs/training.md, Speed.
    """
    if not any(name in os.environ for name in OTHERS_CHOICE):
        os.environ["GOMP_SPINCOUNT"] = TURNS
