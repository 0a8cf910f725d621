"""Test samples that were trained on: a figure from them says nothing of new samples."""

from sincere.data.labelled import LabelledData

WORTH_A_WORD = 0.01  # of the test samples: tables and short texts repeat themselves a little


def repeated_note(test: LabelledData, train: LabelledData) -> str | None:
    """A word for the user, if many test samples equal a training sample, byte by byte."""
    if len(test) == 0:
        return None
    seen = set(_marks(train))
    count = sum(mark in seen for mark in _marks(test))
    if count < WORTH_A_WORD * len(test):
        return None
    all_of_them = "all" if count == len(test) else f"{count:,} of"
    which, them = f"{all_of_them} {len(test):,} test samples equal", "them"
    if len(test) == 1:
        which, them = "the one test sample equals", "it"
    return f"{which} a training sample: accuracy on {them} is no measure of how new samples will fare."


def _marks(data: LabelledData) -> list[int]:
    """A number for each sample, the same for equal ones; of 64 bits, so that others share it by no chance."""
    rows = data.inputs.cpu().contiguous().numpy()
    return [hash(row.tobytes()) for row in rows]
