"""`sincere embed`."""

from pathlib import Path
from typing import Annotated

import typer

from sincere.cli import options
from sincere.cli.hints import flags_of
from sincere.cli.new_data import Data, Part, check_overwrites_nothing, read_new
from sincere.cli.notes import note
from sincere.cli.output import tell, tell_json, working
from sincere.cli.run_evaluation import check_finished
from sincere.embeddings import load
from sincere.errors import OptionError
from sincere.runs import RunFolder
from sincere.tables import amount
from sincere.train.processes import device_for

File = Annotated[Path, typer.Option("--out", help="The .npz to write.", show_default=False)]


def embed_data(
    run: options.Run,
    data: Data,
    out: File,
    part: Part = "train",
    label_column: options.LabelColumn = None,
    input_column: options.InputColumn = None,
    unreadable: options.Unreadable = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Embed data with the model of a finished run: embeddings, features, labels and class names in one .npz.

    Columns, encoding and the like are those of the run's own data unless given. The run's own splits are in
    RUN/embeddings already. In Python: sincere.embeddings.load(RUN)(inputs).
    """
    if out.suffix != ".npz":
        raise OptionError(f"--out must end in .npz: got {out}.")
    check_finished(RunFolder(run))
    check_overwrites_nothing(out, run, data, label_column)
    with working(f"embedding {data}") as at:
        model = load(run, device=device_for(device or "auto"))
        at("reading")
        samples, notes = read_new(
            model, data, part=part, label_column=label_column, input_column=input_column, unreadable=unreadable
        )
        made = model.embed(samples, on_step=at).to("cpu")
    place = made.save(out)
    for words in notes:
        note(words, flags_of(embed_data), [data])
    told = {"path": str(place), "samples": len(made), "dim": made.embeddings.shape[1], "classes": made.class_names}
    tell_json(told) if json else tell(f"{place}: {amount(len(made), 'embedding')} of dimension {told['dim']}")
