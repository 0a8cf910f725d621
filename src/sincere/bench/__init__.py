"""What the losses cost on this machine, beside the code people write: `print(sincere.bench.measure())`."""

from sincere.bench.agreement import Agreement, AgreementError
from sincere.bench.measurement import measure
from sincere.bench.records import BenchResult, Machine, Record
from sincere.bench.table import render

__all__ = ["Agreement", "AgreementError", "BenchResult", "Machine", "Record", "measure", "render"]
