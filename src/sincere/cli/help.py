"""What `--help` shows: paragraphs that fit any terminal, flags that take no value without one. And `~` in paths."""

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup


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


class Verb(TyperCommand):
    """A command whose flags show no type, and whose paths may begin with `~`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        ctx.params = {name: at_home(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


class Verbs(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))
