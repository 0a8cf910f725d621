"""What to type: advice in the words of the command line, to be copied as it stands."""

import re
import shlex
from collections.abc import Collection

from sincere.data import DataOptions

OF_DATA = ("test", "kind", "validation_share", "test_share", "seed")  # the others are data.options.NAME
PYTHON = re.compile(r"\b(?P<name>[a-z_]+)=(?P<quote>['\"])(?P<value>.*?)(?P=quote)")


def command(*words: object) -> str:
    """A command line of these words; names with spaces and the like in quotation marks.

    >>> command("evaluate", "runs/my photos")
    "sincere evaluate 'runs/my photos'"
    """
    return " ".join(["sincere", *(_word(str(word)) for word in words)])


def as_typed(words: str, flags: Collection[str]) -> str:
    """`words`, which may advise `label_column='…'` as in Python, with options as a verb takes them.

    That is by its own flag, or by --set where it has that.

    >>> as_typed("Name it: label_column='kind of wine'.", ["label_column", "set_"])
    "Name it: --label-column 'kind of wine'."
    >>> as_typed("Or go on without them: unreadable='skip'.", ["set_"])
    'Or go on without them: --set data.options.unreadable=skip.'
    """

    def typed(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in DataOptions.__annotations__ and name not in flags:
            return found[0]
        if name in flags:
            return f"--{name.replace('_', '-')} {_word(value)}"
        place = "data" if name in OF_DATA else "data.options"
        return f"--set {_word(f'{place}.{name}={value}')}" if "set_" in flags else found[0]

    return PYTHON.sub(typed, words)


def _word(text: str) -> str:
    """As one word of a shell; shlex.quote alone would quote every letter that is not ASCII too."""
    return text if re.fullmatch(r"[\w@%+=:,./…-]+", text) else shlex.quote(text)
