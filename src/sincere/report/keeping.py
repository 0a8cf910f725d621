"""Records that a report had to make → the run that lacked them: the one place where a report writes into a run."""

from pathlib import Path

from sincere.report.subject import Subject
from sincere.runs import WriteError
from sincere.runs.files import write_atomically


def keep_records(subject: Subject) -> dict[Path, WriteError]:
    """Write into a run what `read_subject` had to make anew: its `evaluation.json`, its `geometry.json`, or neither.

    A geometry of other samples is replaced. Records that were on file are left as they are, and beside a file of
    embeddings nothing is written.

    Returns:
        What could not be written, by its place, with the reason: empty where everything is kept. A run that others may
        only read is no mistake, so this is not raised.
    """
    refused: dict[Path, WriteError] = {}
    for place, record in subject.unkept.items():
        try:
            write_atomically(place, (record.to_json() + "\n").encode())
        except WriteError as error:
            refused[place] = error
    return refused
