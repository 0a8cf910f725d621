"""What every loss has as an `nn.Module`: options that are checked when it is made, and remembered."""

import functools
import inspect
from collections.abc import Callable
from math import log
from typing import Any, ClassVar, ParamSpec, Unpack, cast

import torch
from torch import Tensor, nn

from sincere.checks import check_flag, check_temperature
from sincere.errors import OptionError
from sincere.losses.options import (
    DEFAULTS,
    LossOptions,
    Settings,
    StandingOptions,
    check_names,
    settings_from,
    signature_with_options,
)

P = ParamSpec("P")


class ModuleOptions(StandingOptions, total=False):
    """What every loss takes when it is made.

    learnable_temperature: begin with the given temperature and learn it.
    temperature_floor: what a learned temperature stays above.
    """

    learnable_temperature: bool
    temperature_floor: float


OF_MODULES = (
    inspect.Parameter("learnable_temperature", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool),
    inspect.Parameter("temperature_floor", inspect.Parameter.KEYWORD_ONLY, default=0.01, annotation=float),
)


def remembers_options(init: Callable[P, None]) -> Callable[P, None]:
    """Turn an `__init__` that only declares options into one that checks and remembers those given, and whose signature
    shows all of them."""
    signature = signature_with_options(init)
    standing = [p for p in signature.parameters.values() if p.name != "weights"]
    signature = signature.replace(parameters=[*standing, *OF_MODULES])
    defaults = {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}

    @functools.wraps(init)
    def remember(*args: P.args, **given: P.kwargs) -> None:
        loss = cast("ContrastiveLoss", args[0])
        named = type(loss).__name__
        if len(args) > 1:
            is_number = isinstance(args[1], (int, float)) and not isinstance(args[1], bool)
            example = f"{named}(temperature={args[1] if is_number else 0.1})"
            raise TypeError(f"{named} takes its options by name: got {args[1]!r} without one. Write {example}.")
        if given.pop("weights", None) is not None:
            raise OptionError("weights belong to a batch: pass them to the call, loss(embeddings, labels, weights=…).")
        check_names(given, defaults)
        loss.remember(given, defaults)

    remember.__signature__ = signature  # type: ignore[attr-defined]
    return remember


class ContrastiveLoss(nn.Module):
    """What the losses share: remembered options, and a temperature that is fixed or learned.

    A learned temperature is floor + e^p with the parameter p, so it stays above the floor and never gets stuck there.
    """

    function: ClassVar[Callable[..., Tensor]]

    @remembers_options
    def __init__(self, **options: Unpack[ModuleOptions]) -> None:
        """Options by name, see :class:`sincere.losses.options.LossOptions` and :class:`ModuleOptions`."""

    def remember(self, given: dict[str, Any], defaults: dict[str, Any]) -> None:
        """Check the given options and keep them: those of every loss, those that only this one has, and those of
        modules alone."""
        super().__init__()
        self.options = cast(LossOptions, {name: value for name, value in given.items() if name in DEFAULTS})
        of_modules = [parameter.name for parameter in OF_MODULES]
        learnable, floor = (given.get(name, defaults[name]) for name in of_modules)
        self.own_options = {
            name: given.get(name, value) for name, value in defaults.items() if name not in (*DEFAULTS, *of_modules)
        }
        settings = settings_from(self.options)
        self.check_own(settings)
        check_flag("learnable_temperature", learnable)
        check_temperature(floor, "temperature_floor")
        self.temperature_floor: float = floor
        self.log_temperature: nn.Parameter | None = None
        if learnable:
            self.log_temperature = nn.Parameter(_log_above_floor(settings.temperature, floor))
        # What is to be learned must be found by parameters(), state_dict() and to(), which do not look into options. A
        # call uses what is found here, too: functional_call, fully_shard and load_state_dict(assign=True) replace it.
        elif isinstance(settings.temperature, nn.Parameter):
            self.given_temperature = settings.temperature
        if isinstance(settings.similarity, nn.Module):
            self.similarity = settings.similarity

    def check_own(self, settings: Settings) -> None:
        """Check what this loss alone requires of its options: subclasses call their function's own check."""

    @property
    def temperature(self) -> float | Tensor:
        """The temperature of the next call."""
        if self.log_temperature is not None:
            return self.temperature_floor + self.log_temperature.exp().squeeze()
        if hasattr(self, "given_temperature"):
            return self.given_temperature
        return self.options.get("temperature", Settings.temperature)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        contrast_embeddings: Tensor | None = None,
        contrast_labels: Tensor | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        # Labels may be missing here only so that the check of labels, and no bare TypeError, says what is missing.
        return self.function(embeddings, labels, contrast_embeddings, contrast_labels, **self.call_options(weights))

    def call_options(self, weights: Tensor | None) -> dict[str, Any]:
        """The remembered options with what changes from call to call."""
        learned = {"similarity": self.similarity} if hasattr(self, "similarity") else {}
        now = {"temperature": self.temperature, "weights": weights}
        return {**self.options, **self.own_options, **learned, **now}

    def extra_repr(self) -> str:
        shown: dict[str, Any] = {**self.options, **self.own_options}
        if self.log_temperature is not None and self.log_temperature.is_meta:  # has no value yet
            shown["temperature"] = "learned"
        elif self.log_temperature is not None:
            shown["temperature"] = f"{float(torch.as_tensor(self.temperature).detach()):.4g} (learned)"
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _log_above_floor(temperature: float | Tensor, floor: float) -> Tensor:
    start = float(temperature.detach()) if isinstance(temperature, Tensor) else float(temperature)
    if start <= floor:
        raise OptionError(f"temperature must start above temperature_floor, {floor}: got {start}.")
    return torch.tensor([log(start - floor)])  # one element and no scalar, which `fully_shard` would refuse
