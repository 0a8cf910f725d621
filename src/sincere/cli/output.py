"""What the first process tells: findings on stdout, everything on the way there on stderr."""

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

DEBUG = "SINCERE_DEBUG"  # the environment variable that shows tracebacks
PLAIN = {"–": "-", "−": "-", "→": "->", "×": "x", "…": "...", "″": '"', "’": "'"}  # where a stream lacks these


def take_every_sign(*streams: object) -> None:
    """Let streams of a small character set (ASCII, a code page of Windows) take any text: `PLAIN` signs where there are
    such, escapes elsewhere."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        sign = error.object[error.start]
        return PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode(), error.start + 1

    codecs.register_error("plain", plain)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


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
    """A finding for a program: one JSON document on stdout, escaped where stdout could not take it otherwise."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    tell(text)


@contextmanager
def working(title: str) -> Iterator[Callable[[str], None]]:
    """While something takes its time: call what this gives with a few words on what is being done."""
    console = Console(stderr=True)
    if not (leader() and console.is_terminal):
        yield lambda words: None
        return
    # As Text, since a string would be markup, and a file may be called `photos [/old]`.
    with console.status(Text(title)) as status:
        yield lambda words: status.update(Text(f"{title}: {words}"))
