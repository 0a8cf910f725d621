"""What a benchmark found: one record a candidate and size, and the machine that they belong to."""

import json
from dataclasses import asdict, dataclass

from sincere.bench.agreement import Agreement
from sincere.bench.table import render, sentences

FORMAT = "sincere.bench/1"


@dataclass(frozen=True)
class Machine:
    """Where and with what it was measured."""

    device: str  # "cpu", "cuda:0"
    name: str  # of the processor or the GPU
    threads: int | None  # of the CPU; None on a GPU
    python: str
    torch: str
    triton: str | None
    cuda: str | None


@dataclass(frozen=True)
class Record:
    """One candidate on one batch: forward and backward."""

    candidate: str  # "ours SINCERE", "eager SupCon", "compiled dense SINCERE", "three products"
    loss: str | None  # "SINCERE", "SupCon"; None for bare products
    n: int
    d: int
    classes: int
    dtype: str  # of the embeddings
    ms: float  # median over rounds
    p20: float
    p80: float
    rounds: int
    repeats: int  # steps in a round, whose mean is the round's time
    ratio: float  # its time over that of ours, same loss, same round: the median; products are held against SINCERE
    extra_mib: float | None  # peak beyond the batch; None where it cannot be told
    tflops: float  # 6n²d operations in that time, in 10¹² a second

    @property
    def ours(self) -> bool:
        return self.candidate.startswith("ours")


@dataclass(frozen=True)
class BenchResult:
    """What `measure` found. Print it for a table, `summary` for sentences."""

    machine: Machine
    temperature: float
    seed: int
    started: str  # UTC
    seconds: float  # that the whole benchmark took
    agreement: tuple[Agreement, ...]
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return render(self)

    @property
    def summary(self) -> tuple[str, ...]:
        """What is to be gained, in plain sentences."""
        return tuple(sentences(self))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of embeddings that were timed, in the order of the records."""
        return tuple(dict.fromkeys(record.n for record in self.records))

    def of(self, candidate: str, n: int) -> Record | None:
        """The record of one candidate at one size; None where it was left out."""
        return next((record for record in self.records if (record.candidate, record.n) == (candidate, n)), None)

    def to_json(self) -> str:
        """As JSON, one object a record."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False, allow_nan=False)
