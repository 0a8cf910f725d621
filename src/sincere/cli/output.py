"""What the first process tells: findings on stdout, everything on the way there on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console


def leader() -> bool:
    """Is this the process that talks? torchrun numbers them."""
    return os.environ.get("RANK", "0") == "0"


def say(words: str) -> None:
    """On the way: to stderr."""
    if leader():
        print(words, file=sys.stderr, flush=True)


def tell(words: str) -> None:
    """A finding: to stdout."""
    if leader():
        print(words, flush=True)


def tell_json(value: Any) -> None:
    """A finding for a program: one JSON document on stdout."""
    tell(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def working(title: str) -> Iterator[Callable[[str], None]]:
    """While something takes its time: call what this gives with a few words on what is being done."""
    console = Console(stderr=True)
    if not (leader() and console.is_terminal):
        yield lambda words: None
        return
    with console.status(title) as status:
        yield lambda words: status.update(f"{title}: {words}")
