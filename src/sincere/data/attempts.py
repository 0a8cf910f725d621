"""What a file gives, or the error that reading it raised: one broken file must not stop the others."""

from collections.abc import Callable
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def attempted(function: Callable[[S], T]) -> Callable[[S], T | Exception]:
    """`function`, returning what it raises: decoders raise whatever a broken file leads them into."""

    def attempt(item: S) -> T | Exception:
        try:
            return function(item)
        except MemoryError:
            raise
        except Exception as error:
            return error

    return attempt
