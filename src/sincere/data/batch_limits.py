"""How small batches by class may be, and what a user should know where that makes them larger than asked for."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sincere.data.samples import listed_names
from sincere.tables import amount

Numbers = npt.NDArray[np.int64]
LEAST = 4  # samples of a batch: two of two classes
SHORT = 2  # samples that triples can leave a batch short of its size


def least_size(world_size: int) -> int:
    """Samples that a batch must be planned with, so that no rank is ever without one."""
    return LEAST if world_size == 1 else max(LEAST, world_size + SHORT)


def notes_on_classes(
    names: Sequence[str], counts: Numbers, batch_size: int, sizes: Numbers, *, possible: int, world_size: int
) -> tuple[str, ...]:
    """Classes of one sample, and batches that are larger than asked for; `possible` batches have pairs."""
    notes = [*lone_note(names, counts.tolist())]
    samples, batches = int(counts.sum()), len(sizes)
    if sizes.max() > batch_size + SHORT:  # two more may make the pairs even
        reason = (
            f"the smaller classes have pairs for {amount(batches, 'batch', 'batches')} only"
            if batches == possible
            else f"with {world_size} ranks none may have fewer than {least_size(world_size)}, or a rank could get none"
        )
        notes.append(
            f"batches hold about {samples / batches:.0f} samples rather than {batch_size}: {reason}. Plain shuffling "
            "keeps the size and gives up the pairs."
        )
    return tuple(notes)


def lone_note(names: Sequence[str], counts: Sequence[int]) -> tuple[str, ...]:
    """A note on classes of one sample. Data and batches say it in the same words, so that a run can say it once."""
    alone = [name for name, count in zip(names, counts, strict=True) if count == 1]
    if not alone:
        return ()
    have = f"{amount(len(alone), 'class', 'classes')} {'has' if len(alone) == 1 else 'have'}"
    return (f"{have} one sample to train on, and no positive but views of it: {listed_names(alone, 8)}.",)
