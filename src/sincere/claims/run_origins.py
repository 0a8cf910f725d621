"""Where the runs that a claim read were trained, if that was before the claim was judged, perhaps on other machines."""

import json
from collections.abc import Iterable
from typing import Any

from sincere.runs import RunFolder, read_metrics


def origins_of(runs: Iterable[RunFolder], *, before: str) -> dict[str, Any] | None:
    """How many of the runs were begun before a time, how long they trained, and on what; None where all came after.

    `before` is a time as provenance has it. A run that was gone on with elsewhere was trained on several machines.
    """
    folders = {run.path: run for run in runs}.values()
    kept = [run for run in folders if _starts(run)[0]["started"] < before]
    if not kept:
        return None
    seconds = sum(max(record["seconds"] for record in read_metrics(run.metrics)) for run in kept)
    found: dict[tuple[str, str, str], list[str]] = {}
    for start in (start for run in kept for start in _starts(run)):
        found.setdefault(_machine(start), []).append(start["started"])
    trained_on = [
        {"machine": machine, "torch": torch, "commit": commit, "first": min(times), "last": max(times)}
        for (machine, torch, commit), times in found.items()
    ]
    return {"count": len(kept), "seconds": round(seconds, 1), "trained_on": trained_on}


def _starts(run: RunFolder) -> list[dict[str, Any]]:
    starts: list[dict[str, Any]] = json.loads(run.provenance.read_text(encoding="utf-8"))["starts"]
    return starts


def described_origin(start: dict[str, Any]) -> str:
    """In a few words: the hardware, torch and commit of a provenance."""
    machine, torch, commit = _machine(start)
    return f"{machine}, torch {torch}, commit {commit[:9]}"


def _machine(start: dict[str, Any]) -> tuple[str, str, str]:
    """Hardware, torch and commit of a start."""
    hardware = start["hardware"]
    machine = ", ".join(hardware.get("gpus", [])) or f"CPU, {hardware['threads']} thread(s)"
    return machine, start["versions"]["torch"], start.get("sincere_commit") or "unknown"
