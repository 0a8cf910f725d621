"""What a verb notes on its way: in the words of the command line, a line each."""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sincere
from sincere.cli.hints import Flags, as_typed
from sincere.cli.output import say

OURS = Path(sincere.__file__).parent


def note(words: str, flags: Flags, own: Collection[str] = ()) -> None:
    """A line on stderr; `own` are names that the user gave."""
    say(f"note: {as_typed(words, flags, own)}")


@contextmanager
def warnings_as_notes(flags: Flags, own: Collection[str] = ()) -> Iterator[None]:
    """Within a verb the library's own warnings are notes: a file and a line of ours help nobody at a terminal."""
    usual = warnings.showwarning

    def show(message: Any, category: Any, filename: str, *place: Any, **more: Any) -> None:
        if Path(filename).is_relative_to(OURS):
            note(str(message), flags, own)
        else:
            usual(message, category, filename, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual
