"""The beginning of a run in its folder: a new one, or one that goes on; never one over another."""

import json
from typing import Any

import torch

from sincere.data import Splits
from sincere.data.fingerprint import data_fingerprint
from sincere.errors import InputError, OptionError
from sincere.runs import MetricsLog, RunFolder, newest_step, provenance, read_json, write_json
from sincere.train.config import ComputeConfig
from sincere.train.processes import Processes
from sincere.train.train_config import TrainConfig, changed


def check_folder(folder: RunFolder, config: TrainConfig, *, resume: bool) -> None:
    """Refuse at once, before any data is read, what could not be written or gone on with."""
    if not folder.started:
        check_empty(folder)
        return
    if not resume:
        raise OptionError(f"{folder.path} holds a run already: choose another folder, or resume it: resume=True.")
    check_same_settings(folder, TrainConfig.load(folder.config).to_json(), config.to_json())


def check_config(config: object) -> None:
    """Refuse the name of data and the like in the place of all settings."""
    if not isinstance(config, TrainConfig):
        raise OptionError(
            f"config must be a TrainConfig: got {type(config).__name__}. Data is named in it: "
            "TrainConfig(data=DataConfig('photos/'))."
        )


def check_splits(data: object) -> None:
    """Refuse arrays, files and the like in the place of splits in memory."""
    if not isinstance(data, Splits):
        raise InputError(
            f"data must be the splits that sincere.data.open_data returns: got {type(data).__name__}. Files need no "
            "`data` here, name them in config.data: DataConfig('photos/'). Arrays in memory become splits by "
            "sincere.data.split_arrays(inputs, labels)."
        )


def notes_on_compute(compute: ComputeConfig, device: torch.device) -> tuple[str, ...]:
    """Settings that would do nothing on this device, or harm."""
    if device.type == "cuda":
        return ()
    notes = []
    if compute.compile == "graphs":
        notes.append(f"compute.compile='graphs' records CUDA graphs: on this device, {device.type}, steps stay plain.")
    if compute.precision == "fp16" and device.type == "cpu":
        notes.append("compute.precision='fp16' can be many times slower on a CPU than 'fp32' or 'bf16'.")
    return tuple(notes)


def begin(folder: RunFolder, config: TrainConfig, splits: Splits) -> None:
    """Make the folder of a run, or check that its data are the same, and note this start."""
    record: dict[str, Any] = {"data": describe_data(splits), "starts": []}
    if folder.started:
        given, record = record["data"], read_json(folder.provenance)
        check_same_splits(record, given)
    folder.create()
    record["starts"].append(provenance(seed=config.seed))
    write_json(folder.provenance, record)
    write_json(folder.config, config.to_json())
    MetricsLog(folder.metrics).cut_after(newest_step(folder.checkpoint))


def check_same_settings(folder: RunFolder, began: dict[str, Any], given: dict[str, Any]) -> None:
    """A run goes on with the settings it began with; `given` are as JSON, and need not make a configuration."""
    if different := changed(began, given):
        raise OptionError(
            f"{folder.path} was begun with other settings ({'; '.join(different)}): resume it with those in its "
            f"{folder.config.name}, or start a new run in another folder. Only `reporting` may change."
        )


def check_alike(config: TrainConfig, splits: Splits, processes: Processes) -> None:
    """Processes of one run share its batches out. Devices may differ, the places of data, and what is reported."""
    settings = {**config.to_json(), "reporting": None}
    settings["compute"] = {**settings["compute"], "device": None}
    settings["data"] = {**settings["data"], "source": None, "test": None}
    advice = "Start all of them with the same command, on the same files."
    processes.agree("settings", json.dumps(settings, sort_keys=True), advice=advice)
    processes.agree("training data", data_fingerprint(splits.train), advice=advice)


def check_same_splits(record: dict[str, Any], given: dict[str, Any], *, or_else: str = ", or start a new run") -> None:
    """A run goes on with the samples that it began with, and its accuracies are of the same ones: `given` as
    `describe_data` has it, `record` as the run keeps it. `or_else` is advice to those who no longer have them."""
    for name, which in (("fingerprint", "the training data"), ("held_out_fingerprint", "the validation and test data")):
        known = record.get("data", {}).get(name)
        if known != given[name]:
            raise InputError(
                f"{which} must be what the run began with: their fingerprint differs ({known} then, {given[name]} "
                f"now). Bring the data back{or_else}."
            )


def check_empty(folder: RunFolder) -> None:
    """Nothing of anybody else's may lie where a run begins."""
    there = next(place for place in (folder.path, *folder.path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise OptionError(f"the place of a run must be a folder: {there} is a file.")
    found = [place.name for place in folder.path.iterdir()] if folder.path.is_dir() else []
    foreign = sorted(name for name in found if not folder.knows(name))
    if foreign:
        raise OptionError(f"{folder.path} must be new or empty: it holds {', '.join(foreign[:5])}.")


def describe_data(splits: Splits) -> dict[str, Any]:
    """What the run was given, in JSON."""
    return {
        "name": splits.train.name,
        "kind": splits.train.kind,
        "shape": list(splits.train.form.shape),
        "classes": len(splits.train.class_names),
        "train": len(splits.train),
        "validation": 0 if splits.validation is None else len(splits.validation),
        "test": len(splits.test),
        "notes": list(splits.note),
        "fingerprint": data_fingerprint(splits.train),
        "held_out_fingerprint": data_fingerprint(*filter(None, (splits.validation, splits.test))),
    }
