"""Tiny data and finished runs for the tests of the command line, and a way to call it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typer.testing import CliRunner, Result

from sincere.cli.app import app

FAST = ("--epochs", "2", "--batch", "16", "--device", "cpu", "--set", "encoder.options.width=8", "--dim", "4")


def call(*words: object) -> Result:
    """`sincere WORDS…` within this process; an error that is no message fails the test."""
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*words: object) -> Result:
    """The same, where nothing may go wrong."""
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words: object) -> str:
    """The line with which a command is refused, the only one of an error."""
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert result.stderr.endswith(line + "\n")
    return line


def parsed(*words: object) -> Any:
    """What a command prints for programs."""
    return json.loads(done(*words, "--json").stdout)


def apart(*words: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m sincere WORDS…` in a process of its own."""
    command = [sys.executable, "-m", "sincere", *map(str, words)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300)


def blobs(path: Path, samples: int = 90, seed: int = 0) -> Path:
    """Three clouds of points in six dimensions, as an .npz."""
    random = np.random.default_rng(seed)
    labels = np.arange(samples) % 3
    centres = 3 * np.random.default_rng(7).standard_normal((3, 6))
    points = centres[labels] + random.standard_normal((samples, 6))
    np.savez(path, x=points.astype(np.float32), y=np.array(["ant", "bee", "cat"])[labels])
    return path


class Stopping(nn.Module):
    """An encoder that presses Ctrl-C at its third batch where there is a file `stop`: `command_line:Stopping`."""

    feature_dim = 8

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer, self.batches = nn.Linear(shape[0], self.feature_dim), 0

    def forward(self, points: Tensor) -> Tensor:
        self.batches += 1
        if self.batches == 3 and Path("stop").exists():
            Path("stop").unlink()
            signal.raise_signal(signal.SIGINT)
        return torch.tanh(self.layer(points))


def with_two_runs(folder: Path) -> Path:
    """A folder with data, blobs.npz, and a run of each of two losses on it, sincere and supcon."""
    data = blobs(folder / "blobs.npz")
    for loss in ("sincere", "supcon"):
        done("train", data, *FAST, "--loss", loss, "--out", folder / loss, "--quiet")
    return folder
