"""What claims read of a finished run, in three megabytes or less: for a repository, or for the way to another machine.

Runs that take many minutes of a GPU each are made one at a time, perhaps on machines that are gone the next day.
"""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import torch.nn.functional as F

from sincere.claims.simplex_fit import FILE, as_json, simplex_fit
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError
from sincere.runs import RunFolder, read_metrics
from sincere.runs.files import write_atomically


def is_light(folder: RunFolder) -> bool:
    """Was it written by `lighten`? It writes the evaluation last."""
    return folder.evaluation.exists() and not folder.finished


def lighten(run: str | Path, out: str | Path, *, embeddings: bool = True) -> Path:
    """Copy of a finished, evaluated run what claims read, to `out`: no weights, no training embeddings, no features.

    Of test embeddings the directions are kept, in float16: a cosine moves by at most 0.001, a mean by far less. Without
    them (`embeddings=False`) errors are left, and how near training and test embeddings are to a simplex.
    """
    heavy, light = RunFolder(Path(run)), RunFolder(Path(out))
    if not heavy.finished or not heavy.evaluation.exists():
        raise InputError(f"a run must be finished and evaluated before it is made light: {heavy.path} is not.")
    if light.path.exists():
        raise InputError(f"{light.path} exists already: choose another place, or remove it.")
    light.path.mkdir(parents=True)
    shutil.copyfile(heavy.config, light.config)
    shutil.copyfile(heavy.provenance, light.provenance)
    records = read_metrics(heavy.metrics)
    lines = [json.dumps(record) for record in records if record["kind"] == "epoch" or record is records[-1]]
    write_atomically(light.metrics, "".join(line + "\n" for line in lines).encode())
    splits = {split: EmbeddingSet.load(heavy.embeddings(split)) for split in ("train", "test")}
    write_atomically(light.path / FILE, as_json({split: simplex_fit(found) for split, found in splits.items()}))
    if embeddings:
        light.embeddings("test").parent.mkdir()
        write_atomically(light.embeddings("test"), _small(splits["test"]))
    write_atomically(light.evaluation, heavy.evaluation.read_bytes())
    return light.path


def _small(test: EmbeddingSet) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(
        file,
        embeddings=F.normalize(test.embeddings, dim=1).numpy().astype(np.float16),
        labels=test.labels.numpy(),
        class_names=np.array(test.class_names),
        name=np.array(test.name),
    )
    return file.getvalue()
