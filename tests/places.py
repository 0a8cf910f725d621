"""Where a property is tested: backend, device, precision, and how close float numbers come there."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from loss_table import BACKENDS, REDUCTIONS, LossCase


@dataclass(frozen=True)
class Place:
    """A place's tensors are drawn on the CPU and moved, so that every place sees the same numbers."""

    backend: str
    device: str = "cpu"
    dtype: torch.dtype = torch.float64
    tolerance: float = 1e-10  # relative
    reductions: tuple[str, ...] = tuple(REDUCTIONS)  # on edge batches, like the next
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)

    def __repr__(self) -> str:
        return self.backend

    def randn(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64).to(self.device, self.dtype)

    def rand(self, *shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64).to(self.device, self.dtype)

    def put(self, rows: Tensor) -> Tensor:
        """Embeddings as this place has them."""
        return rows.to(self.device, self.dtype, copy=True)

    def labels(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=torch.int64).to(self.device)

    def loss(self, case: LossCase, *args: Any, **options: Any) -> Tensor:
        return case.call(*args, backend=self.backend, **options)

    def assert_same(self, a: Tensor, b: Tensor) -> None:
        torch.testing.assert_close(a, b, rtol=self.tolerance, atol=self.tolerance / 100)

    def about(self, expected: float, digits: float = 0.0) -> Any:
        """For a comparison with a number that is known to so many digits."""
        return pytest.approx(expected, rel=self.tolerance, abs=max(self.tolerance / 100, digits))

    def takes(self, case: LossCase) -> bool:
        return self.backend != "triton" or case.name != "set_nce"

    @property
    def knows_classes_only(self) -> bool:
        return self.backend == "triton"


ON_CPU = [Place(backend) for backend in (*BACKENDS, "auto")]
