"""`sincere export`."""

from pathlib import Path
from typing import Annotated

import typer

from sincere.cli import options
from sincere.cli.output import tell, tell_json, working
from sincere.cli.run_evaluation import check_finished
from sincere.embeddings import export_onnx, export_safetensors, load
from sincere.errors import OptionError
from sincere.runs import RunFolder

File = Annotated[Path, typer.Argument(metavar="FILE", help="….onnx or ….safetensors", show_default=False)]
WRITERS = {".onnx": export_onnx, ".safetensors": export_safetensors}


def export(run: options.Run, file: File, json: options.Json = False) -> None:
    """Write the model of a finished run for other programs; the file's ending says how.

    .onnx takes raw inputs and gives embeddings, and is compared with torch before it gets its name. .safetensors holds
    the weights as a plain state dict.
    """
    if file.suffix not in WRITERS:
        raise OptionError(f"FILE must end in {' or '.join(WRITERS)}: got {file}.")
    check_finished(RunFolder(run))
    if file.resolve() == RunFolder(run).weights.resolve():
        raise OptionError(f"FILE must be another than the run's own weights, which it reads: got {file}.")
    with working(f"writing {file}"):
        place = WRITERS[file.suffix](load(run, device="cpu"), file)
    size = place.stat().st_size
    tell_json({"path": str(place), "bytes": size}) if json else tell(f"{place}: {size / 1e6:,.1f} MB")
