"""The machine in a few words."""

import importlib.util
import platform
from importlib import metadata
from pathlib import Path

import torch

from sincere.bench.records import Machine


def this_machine(device: str) -> Machine:
    """Name, threads and versions; figures of two machines say nothing about each other."""
    on_gpu = torch.device(device).type == "cuda"
    has_triton = importlib.util.find_spec("triton") is not None
    return Machine(
        device=device,
        name=torch.cuda.get_device_name(device) if on_gpu else cpu_name(),
        threads=None if on_gpu else torch.get_num_threads(),
        python=platform.python_version(),
        torch=torch.__version__,
        triton=metadata.version("triton") if on_gpu and has_triton else None,
        cuda=torch.version.cuda if on_gpu else None,
    )


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
