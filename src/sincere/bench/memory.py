"""Peak memory of one step beyond what was there before, and how much there is."""

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from sincere.checks import free_memory

MEBIBYTE = 1 << 20
T = TypeVar("T")


def with_peak(step: Callable[[], T], device: str) -> tuple[T, float | None]:
    """What the step returns, and its peak in MiB beyond what was held before; None where it cannot be told.

    On a GPU the peak is the allocator's own count. On Linux it is the peak of resident memory, which the kernel starts
    anew when asked: freed memory that the process keeps is handed back first, so that it counts again. Expect some ten
    MiB of noise there.
    """
    if torch.device(device).type == "cuda":
        return _with_allocated_peak(step, device)
    return _with_resident_peak(step)


def _with_allocated_peak(step: Callable[[], T], device: str) -> tuple[T, float]:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = step()
    torch.cuda.synchronize(device)
    return result, (torch.cuda.max_memory_allocated(device) - before) / MEBIBYTE


def _with_resident_peak(step: Callable[[], T]) -> tuple[T, float | None]:
    if not _start_peak_anew():
        return step(), None
    before = _resident("VmRSS")
    result = step()
    return result, max(0.0, (_resident("VmHWM") - before) / MEBIBYTE)


def _start_peak_anew() -> bool:
    """Set the peak of resident memory to what is resident now; False where the system does not let us."""
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):  # a sandbox without these files, a C library without malloc_trim
        return False
    return True


def _resident(name: str) -> int:
    """Bytes that this process holds (VmRSS), or has held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def available_bytes(device: str) -> int:
    """Memory that a step could still take: on a CPU without swap, which would be timed as well."""
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()  # what the allocator keeps for later is free too
        return int(torch.cuda.mem_get_info(device)[0])
    free = free_memory(swap=False)
    if free is None:  # macOS: half of what there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return free
