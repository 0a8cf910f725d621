"""The losses as `nn.Module`s: a module remembers the options, the function of the same name computes."""

from collections.abc import Callable
from math import log
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn

from sincere import functional as SF
from sincere.checks import check_temperature
from sincere.errors import OptionError
from sincere.losses.options import LossOptions, settings_from


class ContrastiveLoss(nn.Module):
    """What the losses share: remembered options, and a temperature that is fixed or learned.

    A learned temperature is floor + e^p with the parameter p, so it stays above the floor and never gets stuck there.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, *, learnable_temperature: bool = False, temperature_floor: float = 0.01, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__()
        settings = settings_from(options)
        if settings.weights is not None:
            raise OptionError("weights belong to a batch: pass them to the call, loss(embeddings, labels, weights=…).")
        self.options = options
        self.own_options: dict[str, Any] = {}  # those that only this loss has
        self.temperature_floor = temperature_floor
        self.log_temperature: nn.Parameter | None = None
        if learnable_temperature:
            self.log_temperature = nn.Parameter(_log_above_floor(settings.temperature, temperature_floor))

    @property
    def temperature(self) -> float | Tensor:
        """The temperature of the next call."""
        if self.log_temperature is None:
            return settings_from(self.options).temperature
        return self.temperature_floor + self.log_temperature.exp()

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        contrast_embeddings: Tensor | None = None,
        contrast_labels: Tensor | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        return self.function(embeddings, labels, contrast_embeddings, contrast_labels, **self.call_options(weights))

    def call_options(self, weights: Tensor | None) -> dict[str, Any]:
        """The remembered options with what changes from call to call."""
        return {**self.options, **self.own_options, "temperature": self.temperature, "weights": weights}

    def extra_repr(self) -> str:
        shown: dict[str, Any] = {**self.options, **self.own_options}
        if self.log_temperature is not None:
            shown["temperature"] = f"{float(torch.as_tensor(self.temperature).detach()):.4g} (learned)"
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _log_above_floor(temperature: float | Tensor, floor: float) -> Tensor:
    check_temperature(floor)
    start = float(torch.as_tensor(temperature).detach())
    if start <= floor:
        raise OptionError(f"temperature must start above temperature_floor, {floor}: got {start}.")
    return torch.tensor(log(start - floor))


class SINCERELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.sincere`: a positive competes with the negatives alone.

    Options are given by name; :class:`sincere.losses.options.LossOptions` lists those that every loss takes.

    >>> loss = SINCERELoss(temperature=0.1)
    >>> embeddings = torch.randn(8, 16, requires_grad=True)
    >>> loss(embeddings, torch.arange(8) // 2).backward()
    """

    function = staticmethod(SF.sincere)


class SupConLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.supcon`: a positive competes with everybody else."""

    function = staticmethod(SF.supcon)

    def __init__(self, *, form: Literal["out", "in"] = "out", **options: Any) -> None:
        super().__init__(**options)
        self.own_options = {"form": form}


class InfoNCELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.infonce`: (b, v, d) embeddings, no labels."""

    function = staticmethod(SF.infonce)

    def forward(  # type: ignore[override]  # it is the one loss without labels
        self, embeddings: Tensor, contrast_embeddings: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        return self.function(embeddings, contrast_embeddings, **self.call_options(weights))


class EpsSupInfoNCELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.eps_supinfonce`: SINCERE with a margin on sim/temperature."""

    function = staticmethod(SF.eps_supinfonce)

    def __init__(self, *, epsilon: float = 0.25, **options: Any) -> None:
        super().__init__(**options)
        self.own_options = {"epsilon": epsilon}


class DecoupledLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.decoupled`: the positive itself is not in the denominator."""

    function = staticmethod(SF.decoupled)


class SpreadLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.spread`: (b, v, d) embeddings."""

    function = staticmethod(SF.spread)

    def __init__(self, *, alpha: float = 0.5, **options: Any) -> None:
        super().__init__(**options)
        self.own_options = {"alpha": alpha}


class SoftLabelLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.soft_label`: labels are probabilities, or weights of pairs."""

    function = staticmethod(SF.soft_label)

    def __init__(self, *, targets: Literal["classes", "pairs"] = "classes", **options: Any) -> None:
        super().__init__(**options)
        self.own_options = {"targets": targets}


class SetLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.set_nce`: all members of a class at once."""

    function = staticmethod(SF.set_nce)

    def __init__(self, *, method: Literal["auto", "exact", "saddle"] = "auto", **options: Any) -> None:
        super().__init__(**options)
        self.own_options = {"method": method}
