"""Where a run came from: what somebody would need to know to repeat it in a year."""

import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy
import torch

OPTIONAL = ("safetensors", "scikit-learn", "torchvision", "timm", "sentence-transformers", "transformers", "triton")


def provenance(*, seed: int) -> dict[str, Any]:
    """Command, commit, versions, hardware, seed and time, as JSON."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "seed": seed,
        "commit": commit_around(Path.cwd()),
        "sincere_commit": commit_around(Path(__file__).parent),
        "versions": _versions(),
        "hardware": hardware(),
    }


def hardware() -> dict[str, Any]:
    """The machine in a few words."""
    found: dict[str, Any] = {
        "platform": platform.platform(),
        "processor": cpu_name(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        found["cuda"] = torch.version.cuda
    return found


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _command() -> str:
    """As somebody would type it: an installed script by its name, without the folder of this environment."""
    python, *words = sys.orig_argv or ["python"]  # inside of another program (R, Julia) there was no command
    if words and sys.executable and Path(words[0]).absolute().parent == Path(sys.executable).parent:
        return shlex.join([Path(words[0]).name, *words[1:]])
    return shlex.join([Path(python).name, *words])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    for name in ("sincere", *OPTIONAL):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from a checkout, or not installed
            continue
    return found


def commit_around(folder: Path) -> str | None:
    """The git commit that is checked out around `folder`, with "+" where files differ from it; None outside of git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
