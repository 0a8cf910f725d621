"""What to type: the library's messages in the words of the command line, and advice to be copied as it stands.

The library speaks to those who call it from Python, and names options in three ways: `label_column='…'`, `the option
label_column`, and at the beginning, as what a sentence is about, `label_column must …` or `head: dim must …`. Whole
settings, `optimizer.lr`, may stand anywhere. `as_typed` knows these, so that no message has to be written twice. Names
of the user's own stay as they are, also where they look like options: a column 'lr=3', a file seed=3.csv.
"""

import inspect
import re
import shlex
from ast import literal_eval
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
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
QUOTED = re.compile(r"(?<!\w)(?:'[^']*'|\"[^\"]*\")(?!\w)")
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


def as_typed(words: str, flags: Flags, own: Collection[str] = ()) -> str:
    """`words` of the library with options as a verb takes them: by its own flag, or by --set where it has that.

    `own` are names that the user gave, of files and the like: they stay as they are.

    >>> flags = {"label_column": "--label-column", "dim": "--dim", "set_": "--set"}
    >>> as_typed("Name it: label_column='kind of wine'.", flags)
    "Name it: --label-column 'kind of wine'."
    >>> as_typed("7 texts were cut; the option words keeps more.", flags)
    '7 texts were cut; --set data.options.words=… keeps more.'
    >>> as_typed("head: dim must be at least 1: got 0.", flags)
    '--dim must be at least 1: got 0.'
    >>> as_typed("dim=3.csv must have a column 'dim=4'.", flags, own=["dim=3.csv"])
    "dim=3.csv must have a column 'dim=4'."
    """
    typed, kept = _Typed({**OF_TRAIN, **flags}), _Kept([])
    words = QUOTED.sub(kept.cited, words)
    stems = [Path(name).stem for name in own if "=" in name]  # which other names begin with: x=3_labels.npy
    for name in sorted({*own, *stems} - {""}, key=len, reverse=True):
        end = "" if "=" in name else r"(?![\w:='\"]|\.\w)"  # a folder `data` is not what `data.seed` is about
        words = re.sub(rf"(?<![\w=./'\"-]){re.escape(name)}{end}", kept.aside, words)
    words = ASSIGNED.sub(typed.assigned, words)
    words = OPTION.sub(typed.advised, words)
    words = ABOUT.sub(typed.about, words)
    return kept.back(SETTING.sub(lambda found: typed.by_setting.get(found[0], found[0]), words))


def names_given(values: Mapping[str, Any]) -> Iterator[str]:
    """The files, columns and the like among what was typed; --set has the library's own names."""
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if name != "set_" and isinstance(one, (str, Path)):
                yield str(one)


@dataclass(frozen=True)
class _Kept:
    """Parts of a message that stay as they are; private-use characters stand for them while the rest is reworded."""

    texts: list[str]

    def aside(self, found: re.Match[str]) -> str:
        self.texts.append(found[0])
        return f"\ue000{len(self.texts) - 1}\ue001"

    def cited(self, found: re.Match[str]) -> str:
        """What stands in quotation marks, unless it is an option's value."""
        is_value = found.string[: found.start()].endswith("=")
        return self.aside(found) if "=" in found[0] and not is_value else found[0]

    def back(self, words: str) -> str:
        for number, text in reversed([*enumerate(self.texts)]):  # the later may hold the earlier
            words = words.replace(f"\ue000{number}\ue001", text)
        return words


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
        if name == "resume":
            return f"{place} RUN"  # yes or no in Python, a folder here
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
        places = {name: self.place(name, group, must) for name in re.findall(NAME, names) if names not in NOUNS}
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
