"""The data of a run, from wherever the command is typed."""

from collections.abc import Collection

from sincere.data import Splits
from sincere.data.sources import missed, missing_path
from sincere.errors import InputError
from sincere.runs import RunFolder, read_json
from sincere.train import TrainConfig
from sincere.train.config import DataConfig
from sincere.train.loop import opened
from sincere.train.start import check_same_splits, describe_data


def data_of(folder: RunFolder, *, or_else: str = "") -> Splits:
    """What a run was trained on, and held out, read again; refused where it is not what it was.

    `or_else` is advice to those who no longer have it.
    """
    config = TrainConfig.load(folder.path).data
    check_is_here(config, folder, or_else=or_else)
    splits = opened(config)
    check_same_splits(read_json(folder.provenance), describe_data(splits), or_else=or_else)
    return splits


def check_is_here(config: DataConfig, folder: RunFolder, *, named: Collection[str] = (), or_else: str = "") -> None:
    """Refuse data that a run names by a path which leads nowhere from here; `or_else` is further advice.

    Of source and test those in `named` are the user's words, and are refused as such where they are read.
    """
    path = missing_path(*(getattr(config, part) for part in ("source", "test") if part not in named))
    if path is not None:
        place, advice = missed(path)
        raise InputError(f"the data of {folder.path} must lie where it was: there is no {place}. {advice}{or_else}.")
