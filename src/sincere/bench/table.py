"""A benchmark as a table and as sentences."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sincere.tables import columns

if TYPE_CHECKING:
    from sincere.bench.records import BenchResult, Record

HEADER = ("forward + backward", "ms", "p20", "p80", "× ours", "extra MiB", "TFLOP/s")


def render(found: "BenchResult") -> str:
    """A table in plain text, one block a size."""
    lines = [_machine(found), _agreement(found)]
    if found.records:
        rows: list[Sequence[str]] = [HEADER]
        for n in found.sizes:
            rows.append((f"n = {n:,}", *[""] * (len(HEADER) - 1)))
            rows += [_row(record) for record in found.records if record.n == n]
        lines += ["", *columns(rows)]
    lines += ["", *found.summary] if found.summary else []
    return "\n".join([*lines, *(f"! {note}" for note in found.notes)])


def sentences(found: "BenchResult") -> Iterator[str]:
    """Ours against n×n code, where both ran and where only ours did."""
    for loss in ("SINCERE", "SupCon"):
        pairs = [(found.of(f"ours {loss}", n), found.of(f"eager {loss}", n)) for n in found.sizes]
        both = [(ours, eager) for ours, eager in pairs if ours is not None and eager is not None]
        if both:
            yield _gain(loss, *both[-1])
    ours = found.of("ours SINCERE", max(found.sizes, default=0))
    if ours is not None and found.of("eager SINCERE", ours.n) is None:
        memory = "" if ours.extra_mib is None else f" and {_size(ours.extra_mib)}"
        yield f"n = {ours.n:,}: ours takes {_time(ours.ms)}{memory}; the n×n code was left out."


def _gain(loss: str, ours: "Record", eager: "Record") -> str:
    gain = (
        f"is {eager.ratio:.1f} times as fast as"
        if eager.ratio >= 1
        else f"takes {1 / eager.ratio:.1f} times as long as"
    )
    memory = ""
    if ours.extra_mib is not None and eager.extra_mib is not None:
        memory = f", in {_size(ours.extra_mib)} instead of {_size(eager.extra_mib)}"
    return f"n = {ours.n:,}: our {loss} {gain} the n×n code{memory}."


def _machine(found: "BenchResult") -> str:
    machine = found.machine
    versions = [f"torch {machine.torch}"] + ([f"triton {machine.triton}"] if machine.triton else [])
    threads = "" if machine.threads is None else f" with {machine.threads} thread{'' if machine.threads == 1 else 's'}"
    batch = ""
    if found.records:
        first = found.records[0]
        batch = f"; d = {first.d}, {first.classes} classes, {first.dtype}, τ = {found.temperature:g}"
    return f"{machine.name}{threads}, {', '.join(versions)}{batch}"


def _agreement(found: "BenchResult") -> str:
    exact = [agreement for agreement in found.agreement if agreement.reference == "float64"]
    if not exact:
        return "nothing was compared with float64"
    value = max(agreement.value_error for agreement in exact)
    gradient = max(agreement.gradient_error for agreement in exact)
    return f"all agree with float64: within {value:.0e} in value, {gradient:.0e} in gradient"


def _row(record: "Record") -> tuple[str, ...]:
    memory = "–" if record.extra_mib is None else f"{record.extra_mib:,.0f}"
    times = (f"{_digits(value)}" for value in (record.ms, record.p20, record.p80))
    return (f"  {record.candidate}", *times, f"{record.ratio:.2f}", memory, f"{record.tflops:,.3g}")


def _digits(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _time(ms: float) -> str:
    return f"{ms / 1000:.3g} s" if ms >= 1000 else f"{ms:.3g} ms"


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
