"""What `--help` shows: paragraphs that fit any terminal, flags that take no value without one. And `~` in paths."""

import inspect
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

MOST_WORDS = 12  # of a path with spaces: thousands of words, as of `train photos/*`, have millions of runs


def flowing(words: str | None) -> str:
    """A docstring whose paragraphs are lines of any length: typer keeps line breaks of all but the first.

    >>> flowing('''One.
    ...
    ...     Two, which
    ...     goes on.
    ...     ''')
    'One.\\n\\nTwo, which goes on.'
    """
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(words or "").split("\n\n"))


def _without_values(parameters: list[Any]) -> list[Any]:
    """`<bool>` behind a flag would read as if it wanted a value; an empty name for it shows none."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def at_home(value: Any) -> Any:
    """Paths with `~` as the home folder: shells leave it as it is in `--out=~/runs/letter`, and a folder `~` helps
    nobody. Anything else as it is.
    """
    if isinstance(value, list):
        return [at_home(one) for one in value]
    if isinstance(value, Path):
        with suppress(RuntimeError):  # nobody is called that, or there is no home
            return value.expanduser()
    return value


def one_path(words: Sequence[str]) -> str | None:
    """The words that together name what lies on the disk, as a shell cuts `my photos` in two; None where none do."""
    starts = range(len(words) - 1)
    runs = ((start, end) for start in starts for end in range(start + 2, min(start + MOST_WORDS, len(words)) + 1))
    wholes = (" ".join(words[start:end]) for start, end in runs)
    return max((whole for whole in wholes if os.path.exists(whole)), key=len, default=None)


class Verb(TyperCommand):
    """A command whose flags show no type, and whose paths may begin with `~`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's, of which some versions of typer have a copy
            said = getattr(error, "message", None)
            if isinstance(said, str) and "extra argument" in said and (whole := one_path(given)) is not None:
                vars(error)["message"] = f"{said}. A path with spaces needs quotation marks: {shlex.quote(whole)}"
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        ctx.params = {name: at_home(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


class Verbs(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))
