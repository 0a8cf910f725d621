"""What `--help` shows: paragraphs that fit any terminal, and flags that take no value shown without one."""

import inspect
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


class Verb(TyperCommand):
    """A command whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))


class Verbs(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))
