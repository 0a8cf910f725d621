"""Which backend computes a batch: decided here alone, with a reason."""

from sincere.losses.backends import dense, tiled
from sincere.losses.pairs import Pairs
from sincere.losses.statistics import RowStatistics, Statistic

# Up to these numbers of pairs the n×m matrices fit the cache (the memory, on a GPU) and the tiles' bookkeeping
# costs more than it saves: `make bench` measures where the lines cross.
SMALL_ON_CPU = 256 * 256
SMALL_ON_GPU = 8192 * 8192


def row_statistics(pairs: Pairs, *wanted: Statistic, margin: float = 0.0) -> RowStatistics:
    """The wanted statistics of every anchor, by the backend that the caller or the batch's size chose."""
    backend, _ = select_backend(pairs)
    compute = dense.row_statistics if backend == "dense" else tiled.row_statistics
    return compute(pairs, wanted, margin)


def select_backend(pairs: Pairs) -> tuple[str, str]:
    """The backend's name, and why."""
    wanted = pairs.settings.backend
    if wanted != "auto":
        return wanted, "asked for"
    if pairs.matrix is not None:
        return "dense", "the similarity is the caller's function of whole batches"
    size = pairs.relation.anchors * pairs.relation.contrasts
    small = SMALL_ON_CPU if pairs.anchors.device.type == "cpu" else SMALL_ON_GPU
    if size <= small:
        return "dense", f"{size} pairs are few"
    return "tiled", f"{size} pairs would take {size * pairs.anchors.element_size() / 2**20:.0f} MiB a matrix"
