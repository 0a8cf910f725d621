"""The machine in a few words."""

import importlib.util
import platform
from importlib import metadata

import torch

from sincere.bench.records import Machine
from sincere.runs.provenance import cpu_name


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
