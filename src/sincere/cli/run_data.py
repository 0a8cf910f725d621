"""The data of a run, from wherever the command is typed."""

from dataclasses import replace
from pathlib import Path

from sincere.data import Splits
from sincere.errors import InputError
from sincere.runs import RunFolder
from sincere.train import TrainConfig
from sincere.train.config import DataConfig
from sincere.train.loop import opened


def data_of(folder: RunFolder, source: str | None = None) -> Splits:
    """What a run was trained on, read again; `source` says where it lies now."""
    config = TrainConfig.load(folder.path).data
    if source is None:
        check_is_here(config, folder)
    return opened(config if source is None else replace(config, source=source))


def check_is_here(config: DataConfig, folder: RunFolder, *, or_else: str = "") -> None:
    """Refuse data that a run names by a path which leads nowhere from here; `or_else` is further advice."""
    for source in filter(None, (config.source, config.test)):
        name, mark, rest = source.partition(":")
        path = rest if mark and name in ("cifar10", "cifar100", "trec") else source
        if source == "digits" or name == "torchvision" or Path(path).expanduser().exists():
            continue
        raise InputError(
            f"the data of {folder.path} must lie where it was trained: there is no {path} in {Path.cwd()}. Go to the "
            f"folder where it was trained{or_else}."
        )
