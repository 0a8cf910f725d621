"""Forward and backward of a step as a CUDA graph: recorded once for a size of batch, then replayed without Python."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

Results: TypeAlias = tuple[Tensor, Tensor, Tensor | None]  # loss, outputs, keys
WARM_UP = 3  # plain steps before the recording: kernels compile, cuDNN chooses its algorithms, libraries take memory
MOST_GRAPHS = 4  # sizes of batches; each keeps the addresses of its activations


class RecordedSteps:
    """Runs `forward_and_backward` on batches: three of a size plainly, the fourth is recorded, and from it on replayed.

    Nothing is compiled, so it is ready as soon as a plain step would be; and a replay costs one launch, so that the GPU
    never waits for Python. What is recorded must not look at numbers on the device, and its random numbers have to come
    in as inputs. Where something cannot be recorded, an encoder of the user's say, steps go on plainly, with a warning.
    """

    def __init__(
        self, forward_and_backward: Callable[[Tensor, Tensor, Tensor], Results], parameters: Iterable[nn.Parameter]
    ) -> None:
        self.run = forward_and_backward
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.recordings: dict[int, Recording] = {}
        self.seen: dict[int, int] = {}
        self.most = MOST_GRAPHS
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor, numbers: Tensor, labels: Tensor) -> Results:
        """Loss, outputs and keys, good until the next call; gradients are left with the parameters."""
        size = len(inputs)
        if size in self.recordings:
            return self.recordings[size](inputs, numbers, labels)
        self.seen[size] = self.seen.get(size, 0) + 1
        if self.seen[size] > WARM_UP and len(self.recordings) < self.most:
            self._record(inputs, numbers, labels)
            if size in self.recordings:
                return self.recordings[size](inputs, numbers, labels)
        # On the stream of the recording: what libraries keep for each stream is in place when it begins.
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            results = self.run(inputs, numbers, labels)
        here.wait_stream(self.stream)
        return results

    def _record(self, *given: Tensor) -> None:
        pool = next((made.graph.pool() for made in self.recordings.values()), None)
        try:
            self.recordings[len(given[0])] = Recording(self.run, self.parameters, given, pool, self.stream)
        except RuntimeError as error:
            self.most = 0
            reason = str(error).partition("\n")[0]
            warnings.warn(
                f"compute.compile='graphs': a step could not be recorded as a CUDA graph, training goes on without. A "
                f"forward pass must not look at numbers on the device (.item(), if tensor.any()): {reason}",
                RuntimeWarning,
                stacklevel=2,
            )
            for parameter in self.parameters:
                parameter.grad = None
            end_capture_of(torch.cuda.default_generators[given[0].device.index])


def end_capture_of(generator: torch.Generator) -> None:
    """Let a generator draw again whose CUDA graph could not be recorded, and let it go on where it stood.

    torch leaves it in the belief that a recording is under way, and then it refuses to draw: no dropout, no randn.
    """
    generator.graphsafe_set_state(generator.clone_state())


class Recording:
    """One graph, the tensors that it reads from, and those that it leaves its results in."""

    def __init__(
        self,
        run: Callable[[Tensor, Tensor, Tensor], Results],
        parameters: list[nn.Parameter],
        given: tuple[Tensor, ...],
        pool: Any,
        stream: torch.cuda.Stream,
    ) -> None:
        self.parameters, self.given = parameters, tuple(tensor.clone() for tensor in given)
        self.graph = torch.cuda.CUDAGraph()
        for parameter in parameters:
            parameter.grad = None  # so that the recording makes gradients of its own, at addresses that stay
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.results = run(*self.given)
        self.gradients = [parameter.grad for parameter in parameters]

    def __call__(self, *given: Tensor) -> Results:
        for place, tensor in zip(self.given, given, strict=True):
            place.copy_(tensor)
        self.graph.replay()
        # The optimizer lets go of gradients after every step.
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return self.results
