"""Which backend computes a batch: decided here alone, with a reason."""

import importlib.util
import os

import torch
from torch import Tensor
from torch.nn import Parameter

from sincere.errors import OptionError
from sincere.losses.backends import dense, operators, transforms
from sincere.losses.options import OWN_SIMILARITY, Settings, refused_kernels
from sincere.losses.pairs import Pairs
from sincere.losses.statistics import RowStatistics, Statistic

# Up to these numbers of pairs the n×m matrices fit the cache (the memory, on a GPU) and the tiles' bookkeeping
# costs more than it saves: benchmarks/crossover.py measures where the lines cross.
SMALL_ON_CPU = 448 * 448
SMALL_ON_GPU = 8192 * 8192
SMALL_FOR_KERNELS = 4096 * 4096
WIDEST_FOR_KERNELS = 1024
KERNEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
INTEGER_LABELS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Up to this many embeddings a CPU is fastest with value and gradient computed together, by hand (small.py).
WHOLE_ON_CPU = 896
PLAIN_REDUCTIONS = ("mean", "mean_all", "sum")
# small.py takes e^margin without guarding it: e^(17 + 32 + 32) times 896 negatives is below float32's largest, 3.4e38.
LARGEST_MARGIN = 17.0
# Looked up once, since code that torch.compile traces cannot look for modules.
HAS_TRITON = importlib.util.find_spec("triton") is not None
CAPABILITIES: dict[int | None, tuple[int, int]] = {}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def row_statistics(pairs: Pairs, *wanted: Statistic, margin: float = 0.0) -> RowStatistics:
    """The wanted statistics of every anchor, by the backend that the caller or the batch's size chose."""
    backend, _ = select_backend(pairs)
    if backend == "dense":
        return dense.row_statistics(pairs, wanted, margin)
    return operators.row_statistics(pairs, wanted, margin, backend)


def kernels_take_whole_loss(embeddings: Tensor, labels: Tensor, settings: Settings) -> bool:
    """Can fused kernels go from these embeddings to the loss, without a stop at the statistics?

    They take what most training loops pass: a batch against itself, one class per sample. Anything else, and every
    mistake, goes the general way, which has the words for it.
    """
    if settings.backend not in ("auto", "triton") or settings.gather or settings.include_batch:
        return False
    if settings.class_balanced or settings.similarity not in ("cosine", "dot") or settings.reduction == "class_mean":
        return False
    if not isinstance(embeddings, Tensor) or not isinstance(labels, Tensor) or embeddings.ndim not in (2, 3):
        return False
    if labels.ndim != 1 or labels.shape[0] != embeddings.shape[0] or labels.dtype not in INTEGER_LABELS:
        return False
    if embeddings.dtype not in KERNEL_DTYPES or embeddings.numel() == 0 or embeddings.shape[-1] > WIDEST_FOR_KERNELS:
        return False
    if settings.weights is not None and not _plain_weights(settings.weights, embeddings, labels):
        return False
    if labels.device != embeddings.device or transforms.are_active(embeddings):
        return False
    return runs_kernels(embeddings.device, settings.backend == "triton")


def small_takes_whole_loss(embeddings: Tensor, labels: Tensor, settings: Settings, margin: float) -> bool:
    """Is it a small, ordinary batch on a CPU, of which nobody but autograd will ask anything?"""
    if settings.backend != "auto" or settings.gather or settings.include_batch or settings.check_finite:
        return False
    if (
        settings.class_balanced
        or settings.similarity != "cosine"
        or not settings.bounded
        or abs(margin) > LARGEST_MARGIN
    ):
        return False
    if settings.reduction not in PLAIN_REDUCTIONS or settings.weights is not None:
        return False
    if type(embeddings) not in (Tensor, Parameter) or type(labels) is not Tensor or embeddings.ndim not in (2, 3):
        return False
    if embeddings.device.type != "cpu" or labels.device.type != "cpu" or not embeddings.is_floating_point():
        return False
    if labels.ndim != 1 or labels.shape[0] != embeddings.shape[0] or labels.dtype not in INTEGER_LABELS:
        return False
    if embeddings.numel() == 0 or embeddings.shape[:-1].numel() > WHOLE_ON_CPU:
        return False
    return not (transforms.are_active(embeddings) or transforms.hide_values(embeddings))


def _plain_weights(weights: object, embeddings: Tensor, labels: Tensor) -> bool:
    """One constant per sample. In float16 they could leave its range, so those take the general way."""
    if not isinstance(weights, Tensor) or weights.shape != labels.shape or weights.device != embeddings.device:
        return False
    return weights.is_floating_point() and not weights.requires_grad and embeddings.dtype != torch.float16


def runs_kernels(device: torch.device, asked_for: bool) -> bool:
    """Is there a GPU that can run them, or an interpreter that was asked to?"""
    if not HAS_TRITON:
        return False
    if device.type == "cpu":
        return INTERPRETED and asked_for
    return device.type == "cuda" and capability(device.index) >= (8, 0)


def capability(index: int | None) -> tuple[int, int]:
    """Of the GPU with this number; asked once, but where torch.compile looks on."""
    if torch.compiler.is_compiling():
        return torch.cuda.get_device_capability(index)
    if index not in CAPABILITIES:
        CAPABILITIES[index] = torch.cuda.get_device_capability(index)
    return CAPABILITIES[index]


def select_backend(pairs: Pairs) -> tuple[str, str]:
    """The backend's name, and why.

    The reasons hold no number of pairs: to print one, torch.compile would make a graph for that number alone, or fail.
    """
    wanted = pairs.settings.backend
    if wanted == "triton" and (reason := why_no_kernels(pairs)):
        raise refused_kernels(reason)
    if wanted != "auto":
        return wanted, "asked for"
    if pairs.matrix is not None:
        return "dense", "the similarity is the caller's function of whole batches"
    if transforms.ask_for_more_than_a_gradient(pairs.anchors, pairs.contrasts):
        return "dense", "torch.func asks for forward mode or a second derivative, which no other backend has"
    size = pairs.relation.anchors * pairs.relation.contrasts
    on_cpu = pairs.anchors.device.type == "cpu"
    no_kernels = "the tensors are on the CPU" if on_cpu else why_no_kernels(pairs)
    small = SMALL_ON_CPU if on_cpu else SMALL_ON_GPU if no_kernels else SMALL_FOR_KERNELS
    if size <= small:
        return "dense", "there are few pairs"
    if no_kernels is None:
        return "triton", "there are many pairs, on a GPU"
    return "tiled", f"a matrix of all pairs would be large, and {no_kernels}"


def kernels_take_sets(pairs: Pairs, method: str) -> bool:
    """Do kernels compute the set loss? They know its saddle point, and rows of any width: products are torch's."""
    wanted = pairs.settings.backend
    if wanted == "triton":
        if method == "exact":
            raise OptionError(
                'backend="triton" has the saddle point of the set loss alone: got method="exact". '
                'Use backend="auto", which computes it exactly on a GPU too, or method="saddle".'
            )
        if reason := why_no_kernels(pairs, widest=None):
            raise refused_kernels(reason)
        return True
    on_gpu = pairs.anchors.device.type == "cuda"
    return on_gpu and wanted == "auto" and method != "exact" and why_no_kernels(pairs, widest=None) is None


def why_no_kernels(pairs: Pairs, widest: int | None = WIDEST_FOR_KERNELS) -> str | None:
    """What keeps the triton backend from computing these pairs; None where nothing does."""
    device = pairs.anchors.device
    if pairs.matrix is not None:
        return OWN_SIMILARITY
    if pairs.relation.kind != "classes":
        return "kernels sort by class, and these labels are no single classes"
    if pairs.relation.usable.ndim != 1:
        return "kernels know classes, not masks of pairs"
    if pairs.anchors.dtype == torch.float64:
        return "the embeddings are float64"
    if widest is not None and pairs.anchors.shape[1] > widest:
        return f"embeddings may have up to 1,024 dimensions, not {pairs.anchors.shape[1]}"
    if not HAS_TRITON:
        return "triton is not installed"
    if device.type == "cpu" and INTERPRETED:
        return None
    if device.type != "cuda":
        return f"the embeddings are on {device.type}, not on a CUDA device"
    if capability(device.index) < (8, 0):
        return "the GPU is older than compute capability 8.0"
    return None
