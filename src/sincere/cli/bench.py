"""`sincere bench`."""

from typing import Annotated

import typer

from sincere.bench import measure
from sincere.cli import options
from sincere.cli.output import tell, tell_json, working
from sincere.errors import OptionError
from sincere.train.processes import device_for

Sizes = Annotated[
    str | None, typer.Option("--sizes", help="Numbers of embeddings, with commas between.", show_default=False)
]
Dimension = Annotated[int, typer.Option("--dim", help="Dimensions of an embedding.")]
Classes = Annotated[int, typer.Option("--classes", help="Number of classes, of nearly equal size.")]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype", help="Of the embeddings; float32 on a CPU, bfloat16 on a GPU unless given.", show_default=False
    ),
]
Compiled = Annotated[bool, typer.Option("--compiled", help="Also n×n code under torch.compile: half a minute more.")]
Seconds = Annotated[float | None, typer.Option("--seconds", help="To spend on timing, all in all.", show_default=False)]


def bench(
    sizes: Sizes = None,
    d: Dimension = 128,
    classes: Classes = 10,
    dtype: Dtype = None,
    compiled: Compiled = False,
    seconds: Seconds = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """What the losses cost on this machine, beside the code people write: time and memory, compared with float64 first.

    Candidates take turns, so that ratios hold on a busy machine too.
    """
    if device is not None:
        device_for(device)  # refuses what is none
    with working("bench") as at:
        found = measure(
            device or "auto",
            None if sizes is None else whole_numbers("--sizes", sizes),
            d=d,
            classes=classes,
            dtype=dtype,
            compiled=compiled,
            seconds=seconds,
            progress=at,
        )
    tell_json(found.to_json()) if json else tell(str(found))


def whole_numbers(flag: str, text: str) -> tuple[int, ...]:
    """`1024,4096` as numbers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"{flag} takes whole numbers with commas between: got {text!r}.") from None
