"""From words on the command line to settings: flags, `--set NAME=VALUE`, and the JSON that they are laid over."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sincere.checks import check_choice
from sincere.errors import OptionError
from sincere.train import TrainConfig
from sincere.train.config import LOSSES

Settings = dict[str, Any]  # a configuration as JSON, whole or in part

# The settings that people change most, by their flags' names.
FLAGS = {
    "loss": "loss.name",
    "temperature": "loss.temperature",
    "encoder": "encoder.name",
    "dim": "head.dim",
    "views": "views.name",
    "epochs": "epochs",
    "batch": "batches.size",
    "optimizer": "optimizer.name",
    "lr": "optimizer.lr",
    "seed": "seed",
    "device": "compute.device",
    "precision": "compute.precision",
    "test": "data.test",
    "kind": "data.kind",
    "image_size": "data.options.image_size",
    "label_column": "data.options.label_column",
    "input_column": "data.options.input_column",
    "unreadable": "data.options.unreadable",
}
OTHER_OBJECTIVES = ("cross_entropy", "fixed_simplex")
# Both are needed for a balance: as contrasts, and as anchors.
CLASS_BALANCED: Settings = {"loss": {"options": {"class_balanced": True, "reduction": "class_mean"}}}


def from_flags(values: Mapping[str, Any]) -> Settings:
    """Settings from the flags that were given. `--loss cross_entropy` is an objective of its own."""
    found: Settings = {}
    for _, setting, value in _chosen(values):
        found = laid_over(found, _nested(setting.split("."), value))
    return laid_over(found, CLASS_BALANCED) if values.get("class_balanced") else found


def _chosen(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each flag that was given, the setting that it is for, and the setting's value."""
    for flag, setting in FLAGS.items():
        value = values.get(flag)
        if value is None:
            continue
        if flag == "loss":
            value = _loss(value)
            setting = "objective" if value in OTHER_OBJECTIVES else setting
        yield flag, setting, value


def overruled(flags: Mapping[str, Any]) -> Iterator[str]:
    """A note for each flag whose setting --set gives another value: --set goes over it."""
    assigned = from_assignments(flags.get("set_") or [])
    for flag, setting, value in _chosen(flags):
        found: Any = assigned
        for name in setting.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if found is not None and found != value and str(found) != str(value):
            yield f"--{flag.replace('_', '-')} {flags[flag]} changes nothing: --set {setting}={found} goes over it."


def without_effect(flags: Mapping[str, Any], config: TrainConfig) -> Iterator[str]:
    """A note for each flag that was given and changes nothing of this run."""
    yield from overruled(flags)
    if flags.get("temperature") is not None and config.objective == "cross_entropy":
        yield "--temperature changes nothing: cross_entropy has none."
    if flags.get("class_balanced") and not config.contrastive:
        yield f"--class-balanced changes nothing: {config.objective} has no contrasts."
    elif flags.get("class_balanced") and not config.loss.options.get("class_balanced"):
        yield (
            "--class-balanced changes nothing: --set goes over it. Another name of the loss there begins its options "
            f"anew: --loss {config.loss.name} keeps them."
        )
    if flags.get("dim") is not None and config.head.layers_for(config.objective) == "none":
        yield (
            "--dim changes nothing: without a head the features are the embeddings. For another dimension: "
            "--set head.layers=linear."
        )


def _loss(name: str) -> str:
    """A loss's name as settings spell it; `package.module:factory` as it is."""
    if ":" in name:
        return name
    known = name.replace("-", "_")
    check_choice("--loss", known, (*LOSSES, *OTHER_OBJECTIVES, "package.module:factory"))
    return known


def from_assignments(texts: list[str]) -> Settings:
    """Settings from `optimizer.weight_decay=1e-4` and the like, each read as its setting's type.

    >>> from_assignments(["optimizer.betas=0.9,0.95", "encoder.options.width=16"])
    {'optimizer': {'betas': [0.9, 0.95]}, 'encoder': {'options': {'width': 16}}}
    """
    found: Settings = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise OptionError(f"--set takes NAME=VALUE, as in optimizer.weight_decay=1e-4: got {text!r}.")
        path = name.strip().split(".")
        hint = _type_of(path)
        setting = _parsed(value.strip(), hint)
        if is_dataclass(hint) and not isinstance(setting, dict):
            parts = [repr(f"{name.strip()}.{field.name}") for field in fields(hint)]
            raise OptionError(f"{name.strip()!r} is a group of settings: set one of them, {', '.join(parts)}.")
        found = laid_over(found, _nested(path, setting))
    return found


def laid_over(below: Settings, above: Settings) -> Settings:
    """`below` with what `above` says. Options belong to a name: where the name changes they begin anew."""
    if "name" in above and "options" in below and above["name"] != below.get("name"):
        below = {**below, "options": {}}
    both = {
        name: laid_over(below[name], value) if isinstance(value, dict) and isinstance(below.get(name), dict) else value
        for name, value in above.items()
    }
    return {**below, **both}


def _nested(path: list[str], value: Any) -> Settings:
    for name in reversed(path):
        value = {name: value}
    settings: Settings = value
    return settings


def _type_of(path: list[str]) -> Any:
    """The declared type of a setting; Any for an option of something that has options of its own."""
    here: Any = TrainConfig
    for place, name in enumerate(path):
        hints = get_type_hints(here)
        if name not in hints:
            raise OptionError(f"unknown setting {'.'.join(path)!r}.{_suggestion(path)}")
        here = hints[name]
        if get_origin(here) is dict:
            return here if place == len(path) - 1 else Any
        if not is_dataclass(here):
            if place < len(path) - 1:
                raise OptionError(f"{'.'.join(path[: place + 1])!r} is a setting itself: it has no {path[-1]!r}.")
            return here
    return here


def _suggestion(path: list[str]) -> str:
    group, rest = path[0], ".".join(path[1:])
    within = [name.partition(".")[2] for name in NAMES if rest and name.startswith(f"{group}.")]
    if within:  # a group's own settings come before those of the same name elsewhere
        close = [f"{group}.{name}" for name in get_close_matches(rest, within, n=1)]
    else:
        same_end = [name for name in NAMES if name.split(".")[-1] == path[-1]]
        close = same_end or get_close_matches(".".join(path), NAMES, n=1)
    if close:
        return f" Did you mean {' or '.join(map(repr, close))}?"
    if within:
        return f" Settings of {group}: {', '.join(repr(f'{group}.{name}') for name in within)}."
    return f" Settings begin with {', '.join(field.name for field in fields(TrainConfig))}."


def _names(record: Any, where: str = "") -> Iterator[str]:
    for name, hint in get_type_hints(record).items():
        yield from _names(hint, f"{where}{name}.") if is_dataclass(hint) else (where + name,)


NAMES = tuple(_names(TrainConfig))  # of all settings: epochs, optimizer.lr, data.options
GROUPS = tuple(dict.fromkeys(name.split(".")[0] for name in NAMES if "." in name))


def _parsed(text: str, hint: Any) -> Any:
    """Text as a value of a declared type; what does not fit stays text, and is refused where the setting is made."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if text.lower() in ("none", "null") and type(None) in kinds:
        return None
    if any(kind is str or get_origin(kind) is Literal for kind in kinds):
        return text
    for kind in kinds:
        if get_origin(kind) is tuple and not text.startswith("["):
            return [_parsed(part.strip(), get_args(kind)[0]) for part in text.split(",")]
    if {int, float} & set(kinds):
        for read in (int, float):
            with suppress(ValueError):
                return read(text)
    with suppress(json.JSONDecodeError):
        return json.loads(text.lower() if text in ("True", "False", "None") else text)
    return text
