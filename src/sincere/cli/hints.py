"""What to type: the library's messages in the words of the command line, and advice to be copied as it stands.

The library speaks to those who call it from Python, and names options in three ways: `label_column='…'`, `the option
label_column`, and at the beginning, as what a sentence is about, `label_column must …` or `head: dim must …`. Whole
settings, `optimizer.lr`, may stand anywhere. `as_typed` knows these, so that no message has to be written twice.
"""

import inspect
import re
import shlex
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from typer.models import OptionInfo

from sincere.cli.settings import FLAGS, GROUPS, NAMES
from sincere.data import DataOptions
from sincere.views import PRESETS

Flags = Mapping[str, str]  # how the options of a verb are typed, by their names in Python
STAGES = {stage.name for presets in PRESETS.values() for stages in presets.values() for stage in stages}
OF_TRAIN = {"resume": "--resume"}  # which other verbs advise too, where a run is not there whole
NOUNS = {"labels"}  # an option, but as what a sentence is about the labels themselves

NAME = r"[a-z][a-z0-9_]*+(?:\.[a-z][a-z0-9_]*+)*+"
VALUE = r"'[^']*'|\"[^\"]*\"|\{'\w+': (?:'[^']*'|[\w.]+)\}|…|-?\w++(?:[.+-]\w++)*+(?!\()"
ASSIGNED = re.compile(rf"(?<![\w./-])(?<!--set )(?<!--set ')(?P<name>{NAME})=(?P<value>{VALUE})")
OPTION = re.compile(rf"\bthe option (?P<name>{NAME})\b")
ABOUT = re.compile(
    rf"^(?:(?P<group>{'|'.join(GROUPS)}): )?(?P<names>{NAME}(?:(?:, | and ){NAME})*+)(?P<must> (?:must|belongs?)\b)?"
)
SETTING = re.compile(rf"(?<![\w./'\"-])(?<!--set ){NAME}(?![\w=])")


def command(*words: object) -> str:
    """A command line of these words; names with spaces and the like in quotation marks.

    >>> command("evaluate", "runs/my photos")
    "sincere evaluate 'runs/my photos'"
    """
    return " ".join(["sincere", *(_word(str(word)) for word in words)])


def flags_of(verb: Callable[..., object]) -> dict[str, str]:
    """How the options of a verb are typed, by their names in Python; arguments without a flag are left out."""
    found = {}
    for name, parameter in inspect.signature(verb).parameters.items():
        hint: Any = parameter.annotation
        about = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        for option in about:
            if isinstance(option, OptionInfo):
                found[name] = str(option.default)  # within Annotated the first word, which is the flag
    return found


def as_typed(words: str, flags: Flags) -> str:
    """`words` of the library with options as a verb takes them: by its own flag, or by --set where it has that.

    >>> flags = {"label_column": "--label-column", "dim": "--dim", "set_": "--set"}
    >>> as_typed("Name it: label_column='kind of wine'.", flags)
    "Name it: --label-column 'kind of wine'."
    >>> as_typed("7 texts were cut; the option words keeps more.", flags)
    '7 texts were cut; --set data.options.words=… keeps more.'
    >>> as_typed("head: dim must be at least 1: got 0.", flags)
    '--dim must be at least 1: got 0.'
    """
    typed = _Typed({**OF_TRAIN, **flags})
    words = ASSIGNED.sub(typed.assigned, words)
    words = OPTION.sub(typed.advised, words)
    words = ABOUT.sub(typed.about, words)
    return SETTING.sub(lambda found: typed.by_setting.get(found[0], found[0]), words)


@dataclass(frozen=True)
class _Typed:
    """The ways in which a message names an option, each as it is typed; what a verb does not take stays as it is."""

    flags: Flags

    @property
    def by_setting(self) -> dict[str, str]:
        """Flags of settings: `optimizer.lr` is --lr."""
        return {setting: self.flags[flag] for flag, setting in FLAGS.items() if flag in self.flags and "." in setting}

    def assigned(self, found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        place = self.place(name)
        if place is None:
            return found[0]
        if value[0] == "{":
            return " ".join(
                f"{place} {_word(f'{key}={one}')}" if place in self.flags.values() else _set(f"{place}.{key}", one)
                for key, one in literal_eval(value).items()
            )
        value = value[1:-1] if value[0] in "'\"" else value
        if place in self.flags.values():
            return place if value == "True" else f"{place} {_word(value)}"
        return _set(place, value)

    def advised(self, found: re.Match[str]) -> str:
        place = self.place(found["name"])
        if place is None:
            return found[0]
        return place if place in self.flags.values() else _set(place, "…")

    def about(self, found: re.Match[str]) -> str:
        """What a sentence is about: `dim`, `head: dim`, `validation_share and test_share`."""
        group, names, must = found["group"], found["names"], found["must"] or ""
        if group is None and not must:
            return found[0]
        before = "" if group is None else f"{group}: "
        places = {name: self.place(name, group, must) for name in re.findall(NAME, names) if name not in NOUNS}
        typed = re.sub(NAME, lambda one: places.get(one[0]) or one[0], names)
        return f"{before if typed == names else ''}{typed}{must}"

    def place(self, name: str, group: str | None = None, must: str = "") -> str | None:
        """The flag of an option, or the setting that --set takes; None where a verb has neither."""
        whole = name if group is None else f"{group}.{name}"
        if group is None and name in self.flags:
            return self.flags[name]
        if "set_" not in self.flags:
            return None
        if whole in NAMES:
            return self.by_setting.get(whole, whole)
        if group is not None:
            if name == group:
                return self.flags.get(name)
            return f"{group}.options.{name}" if must and group in ("encoder", "loss") else None
        if name in DataOptions.__annotations__:
            within_data = f"data.{name}" if f"data.{name}" in NAMES else f"data.options.{name}"
            return self.by_setting.get(within_data, within_data)
        return f"views.options.{name}" if name in STAGES else None


def _set(setting: str, value: object) -> str:
    """`--set` with JSON's words for yes and no."""
    plain = {"True": "true", "False": "false"}.get(str(value), value)
    return f"--set {_word(f'{setting}={plain}')}"


def _word(text: str) -> str:
    """As one word of a shell; shlex.quote alone would quote every letter that is not ASCII too."""
    return text if re.fullmatch(r"[\w@%+=:,./…-]+", text) else shlex.quote(text)
