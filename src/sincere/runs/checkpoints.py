"""Checkpoints that survive anything: a folder per checkpoint, complete before it gets its name.

    checkpoint/step-000000123/tensors.safetensors   weights, optimizer, queue, momentum encoder
    checkpoint/step-000000123/state.json            step, epoch, and whatever is no tensor; the tensors' digest

Both files are written and made durable under another name, and the folder is then renamed: there is no moment at which
a checkpoint is half there, and the previous one is deleted only afterwards.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from sincere.errors import InputError
from sincere.runs.files import TEMPORARY, explained_write, read_json, sync_folder, write_durably
from sincere.runs.tensor_files import digest_of, file_content, tensor_bytes, tensors_from_bytes

TENSORS, STATE = "tensors.safetensors", "state.json"
NAME = re.compile(r"step-(\d{9,})")
ADVICE = "Restore that folder from a copy, or delete it to go on from the checkpoint before, or else from the start."


@dataclass(frozen=True)
class Checkpoint:
    """A state to resume from."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]  # JSON


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write a checkpoint, then delete older ones; on any failure the older one stays.

    One of the same step stays as it is, since it holds the same: to replace it would take a moment without any.
    """
    final = folder / f"step-{step:09d}"
    if final.exists():
        return final
    beside = folder / (final.name + TEMPORARY)
    content = tensor_bytes(tensors)
    described = {**state, "step": step, "digest": digest_of(content)}
    text = json.dumps(described, indent=2, ensure_ascii=False)
    with explained_write(final, len(content) + len(text)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _clear(folder, keep=_names(folder))
            beside.mkdir()
            write_durably(beside / TENSORS, content)
            write_durably(beside / STATE, text.encode())
            os.rename(beside, final)
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(folder)
    _clear(folder, keep=[final.name])
    return final


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    names = _names(folder)
    return int(names[-1].removeprefix("step-")) if names else 0


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint in a folder; None where there is none. Loading it runs no code of it."""
    names = _names(folder)
    if not names:
        return None
    place = folder / names[-1]
    try:
        state = read_json(place / STATE)
        content = file_content(place / TENSORS)
        tensors = tensors_from_bytes(content, place / TENSORS)
    except (InputError, NotADirectoryError) as error:
        raise InputError(f"{place} must be a whole checkpoint: {error} {ADVICE}") from error
    if state.get("digest") != digest_of(content):
        raise InputError(
            f"{place / TENSORS} is not what {STATE} beside it describes: one of them was changed or copied "
            f"incompletely. {ADVICE}"
        )
    return Checkpoint(newest_step(folder), tensors, state)


def _names(folder: Path) -> list[str]:
    """Complete checkpoints, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), place.name) for place in folder.iterdir() if (match := NAME.fullmatch(place.name))]
    return [name for _, name in sorted(found)]


def _clear(folder: Path, *, keep: list[str]) -> None:
    for place in folder.iterdir():
        if place.name not in keep and place.name.startswith("step-"):
            shutil.rmtree(place, ignore_errors=True)
