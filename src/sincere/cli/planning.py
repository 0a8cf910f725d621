"""From the words of `sincere train` to a configuration, its folder, and the data where it had to be looked at."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, get_type_hints

from sincere.checks import check_choice
from sincere.cli.hints import command
from sincere.cli.run_data import check_is_here
from sincere.cli.settings import Settings, from_assignments, from_flags, laid_over
from sincere.data import Splits
from sincere.data.options import OF_A_SOURCE
from sincere.data.sources import reader_for
from sincere.encoders.build import ENCODERS, LIBRARIES
from sincere.errors import OptionError
from sincere.recipes import Given, find_recipe, reduced_side, starting_point
from sincere.runs import RunFolder, read_json
from sincere.tables import amount
from sincere.train import TrainConfig
from sincere.train.loop import opened
from sincere.train.peers import several
from sincere.train.processes import device_for
from sincere.train.start import check_folder, check_same_settings

Planned = tuple[TrainConfig, str, Splits]  # a configuration, the data's name, and the data


@dataclass(frozen=True, eq=False)
class Plan:
    """What to train, and where."""

    config: TrainConfig
    run: Path
    resume: bool = False
    data: Splits | None = None  # None: the configuration alone says what is to be read
    reduced: bool = False  # are images read smaller than they are, as nobody said how large?

    @property
    def shape(self) -> str:
        """The shape of one sample: `3×64×64`."""
        return "" if self.data is None else "×".join(map(str, self.data.train.form.shape))

    def in_words(self) -> str:
        """One line for whoever waits."""
        config = self.config
        what = config.loss.name if config.contrastive else config.objective
        doing = f"{what}, {amount(config.epochs, 'epoch')} → {self.run}"
        if self.data is None:
            return f"{config.data.source}: {doing}"
        train, validation, test = self.data.train, self.data.validation, self.data.test
        held = f"{len(validation):,} to choose by, " if validation is not None else ""
        shape = self.shape
        shape += ", reduced for a CPU: --image-size chooses" if self.reduced else ""
        return (
            f"{train.name}: {len(train):,} samples to train on, {held}{len(test):,} to judge by; "
            f"{len(train.class_names)} classes; {train.kind}, {shape}\n{config.encoder.name}, {doing}"
        )


def planned(words: Mapping[str, Any]) -> Plan:
    """What the command line asks for: `words` are the verb's arguments by name."""
    given, run, resume = _given(words), _folder(words), words["resume"] is not None
    if run is not None and resume and RunFolder(run).started:
        return _gone_on(RunFolder(run), given)
    if run is not None:
        check_folder(RunFolder(run), TrainConfig(), resume=False)  # before data is read, which may take its time
    if resume and words["recipe"] is None and "source" not in given.get("data", {}):
        how = command("train", "DATA", "--resume", run)
        raise OptionError(f"--resume must name the folder of a run: there is none in {run}. To begin one there: {how}")
    plan = _by_the_data if words["recipe"] is None else _by_the_recipe(words["recipe"])
    config, name, data = plan(given)
    device_for(config.compute.device)  # refuses what is none
    _check_kind(config.encoder.name, data)
    asked = words["recipe"] is not None or "image_size" in given.get("data", {}).get("options", {})
    reduced = not asked and "image_size" in config.data.options
    return Plan(config, run or _free_folder(config, name), resume, data, reduced)


def _gone_on(folder: RunFolder, given: Settings) -> Plan:
    """A run that was begun. Where its data lies by now is no setting: what was read is compared with what it was."""
    known = TrainConfig.load(folder.path)
    places = {"source": known.data.source, "test": known.data.test}
    now = {name: given.get("data", {}).get(name, place) for name, place in places.items()}
    settings = laid_over(laid_over(known.to_json(), given), {"data": places})
    try:
        config = TrainConfig.from_json(settings)
    except OptionError:
        check_same_settings(folder, known.to_json(), settings)  # what was typed, before what comes of it
        raise
    words = ["train", "DATA", *(["--test", "TEST"] if known.data.test else []), "--resume", folder.path]
    named = [name for name, place in now.items() if place != places[name]]
    elsewhere = replace(known.data, **now)
    check_is_here(elsewhere, folder, named=named, or_else=f", or name it: {command(*words)}")
    return Plan(config, folder.path, resume=True, data=opened(elsewhere) if named else None)


def _by_the_recipe(name: str) -> Callable[[Settings], Planned]:
    recipe = find_recipe(name)

    def plan(given: Settings) -> Planned:
        if recipe.needs_path and "source" not in given.get("data", {}):
            raise OptionError(f"recipe {name!r} needs its data: {recipe.command}")
        known = recipe.config.to_json()
        settings = laid_over(known, given)
        _check_warmup(settings, known)
        config = TrainConfig.from_json(settings)
        return config, name, opened(config.data)

    return plan


def _by_the_data(given: Settings) -> Planned:
    if "source" not in given.get("data", {}):
        raise OptionError("DATA must be given: a file, a folder, or digits to try it. See `sincere train --help`.")
    data = opened(TrainConfig.from_json(given).data)  # made whole, so that a mistake anywhere shows before data is read
    decided = Given(
        encoder=given.get("encoder", {}).get("name"),
        encoder_options=given.get("encoder", {}).get("options", {}),
        optimizer=given.get("optimizer", {}).get("name"),
        batch=given.get("batches", {}).get("size"),
        epochs=given.get("epochs"),
        device=given.get("compute", {}).get("device"),
        dim=given.get("head", {}).get("dim"),
    )
    side, options = reduced_side(data.train, decided), given.get("data", {}).get("options", {})
    if side is not None and "image_size" not in options:
        given = laid_over(given, {"data": {"options": {"image_size": side}}})
        data = opened(TrainConfig.from_json(given).data)
    start = starting_point(data.train, decided)
    return TrainConfig.from_json(laid_over(start.to_json(), given)), data.train.name, data


def _check_warmup(settings: Settings, below: Settings) -> None:
    """Refuse a warm-up that came with more epochs from `below`, and say what it is in proportion to those asked for."""
    asked: Any = settings.get("epochs")
    made_for: Any = below.get("epochs")
    warmup, before = (one.get("schedule", {}).get("warmup_epochs") for one in (settings, below))
    if warmup != before or not all(isinstance(one, (int, float)) for one in (asked, made_for, warmup)):
        return  # whoever reads the settings says what is wrong with them
    if made_for >= warmup > asked > 0:
        raise OptionError(
            f"the warm-up must fit into the epochs: these settings have {warmup:g} of {made_for:,}, and "
            f"{amount(asked, 'epoch')} {'is' if asked == 1 else 'are'} asked for. In proportion: --set "
            f"schedule.warmup_epochs={warmup * asked / made_for:.2g}"
        )


def _check_kind(encoder: str, data: Splits) -> None:
    """Refuse an encoder that there is not, or is for another kind of data, before anything is announced."""
    if ":" not in encoder and encoder != "auto":
        forms = [f"{library}:NAME" for library in LIBRARIES]
        check_choice("--encoder", encoder, (*ENCODERS, *forms, "package.module:factory"))
    wanted, _ = ENCODERS.get(encoder) or LIBRARIES.get(encoder.partition(":")[0]) or (data.train.kind, None)
    if wanted != data.train.kind:
        fitting = sorted(name for name, (kind, _) in ENCODERS.items() if kind == data.train.kind)
        raise OptionError(
            f"the encoder {encoder!r} is for data of kind {wanted!r}, and {data.train.name} is of kind "
            f"{data.train.kind!r}: use {' or '.join(fitting)}, or leave it out."
        )


def _given(words: Mapping[str, Any]) -> Settings:
    """File, flags and --set, each over the one before."""
    given: Settings = {}
    if words["config"] is not None:
        place = words["config"]
        if not place.exists():
            raise OptionError(f"--config must be a JSON file or the folder of a run: there is no {place}.")
        given = _for_other_data(_from_file(place), words["data"])
        if words["recipe"] is not None and {field.name for field in fields(TrainConfig)} <= given.keys():
            raise OptionError(
                f"--config {place} has every setting, so that nothing of the recipe {words['recipe']!r} would be left: "
                "give one of them."
            )
    below, given = given, laid_over(given, from_flags(words))
    if words["data"] is not None:
        given = laid_over(given, {"data": {"source": words["data"]}})
    given = laid_over(given, from_assignments(words["set_"] or []))
    _check_warmup(given, below)
    return given


def _from_file(place: Path) -> Settings:
    """What --config names; its groups of settings must be groups, as others are laid over them."""
    given = read_json(RunFolder(place).config if place.is_dir() else place)
    for name, hint in get_type_hints(TrainConfig).items():
        if is_dataclass(hint) and not isinstance(given.get(name, {}), dict):
            raise OptionError(f"{name} in {place} must be a group of settings by name: got {given[name]!r}.")
    return given


def _for_other_data(given: Settings, source: str | None) -> Settings:
    """A file's settings where DATA takes the place of the data that it names: without options of that data alone."""
    data: Settings = given.get("data", {})
    if source is None or data.get("source") in (None, source) or not isinstance(data.get("options"), dict):
        return given
    takes = reader_for(source, data.get("kind")).takes
    kept = {name: value for name, value in data["options"].items() if name in takes or name not in OF_A_SOURCE}
    return {**given, "data": {**data, "options": kept}}


def _folder(words: Mapping[str, Any]) -> Path | None:
    out, resume = words["out"], words["resume"]
    if out is not None and resume is not None and out != resume:
        raise OptionError("give --out for a new run or --resume for one to go on with: got both.")
    if out is None and resume is None and several():
        raise OptionError("several processes need one folder to agree on: give --out RUN.")
    folder: Path | None = out if resume is None else resume
    return folder


def _free_folder(config: TrainConfig, name: str) -> Path:
    """`runs/DATA-LOSS`, or the first of `runs/DATA-LOSS-2`, … that does not exist."""
    what = config.loss.name if config.contrastive else config.objective
    plain = re.sub(r"[^\w.-]+", "-", name if what in name else f"{name}-{what}").strip("-.")
    places = (Path("runs") / (plain if number == 1 else f"{plain}-{number}") for number in count(1))
    return next(place for place in places if not place.exists())
