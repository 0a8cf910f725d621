"""Optimizers by configuration: which parameters they move, with which decay, and their state by parameter name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from sincere.errors import InputError
from sincere.train.config import OptimizerConfig
from sincere.train.lars import LARS
from sincere.train.muon import Muon

Named = dict[str, nn.Parameter]


@dataclass(frozen=True, eq=False)
class Optimizers:
    """One optimizer, or Muon and another for the rest, moved together; `rates` are the groups' full learning rates."""

    parts: tuple[torch.optim.Optimizer, ...]
    named: Named
    rates: tuple[float, ...]
    clip_norm: float | None

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def set_rate(self, share: float) -> None:
        """Let every group move at this share of its full rate."""
        for group, rate in zip(self.groups, self.rates, strict=True):
            group["lr"] = rate * share

    @cached_property
    def whole(self) -> torch.optim.Optimizer:
        """All of them as one."""
        return self.parts[0] if len(self.parts) == 1 else Together(self.parts)

    def step(self, scaler: torch.amp.GradScaler | None = None) -> None:
        """Clip, move, forget the gradients."""
        if self.clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(self.whole)
            nn.utils.clip_grad_norm_(list(self.named.values()), self.clip_norm)
        if scaler is None:
            self.whole.step()
        else:
            scaler.step(self.whole)
            scaler.update()
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Everything that an optimizer remembers, by kind and parameter: `momentum_buffer/model.head.0.weight`."""
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.named.items()}
        return {
            f"{key}/{names[parameter]}": value if isinstance(value, Tensor) else torch.tensor(value, device="cpu")
            for part in self.parts
            for parameter, remembered in part.state.items()
            for key, value in remembered.items()
            if value is not None
        }

    @torch.no_grad()
    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave, on the parameters' devices and in their memory layout."""
        owners = {
            parameter: part for part in self.parts for group in part.param_groups for parameter in group["params"]
        }
        for place, value in tensors.items():
            key, _, name = place.partition("/")
            if name not in self.named:
                raise InputError(f"the checkpoint remembers {key} of {name}, which this model does not have.")
            parameter = self.named[name]
            if key == "step" and not _counts_on_device(owners[parameter]):
                pass
            elif value.shape == parameter.shape:
                value = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
            else:
                value = value.to(parameter.device)
            owners[parameter].state[parameter][key] = value


class Together(torch.optim.Optimizer):
    """Several optimizers that move together or, where a gradient of any of them overflowed in float16, not at all.

    A GradScaler looks at the gradients of each optimizer by itself. Were they several to it, those without an overflow
    would move alone, and by gradients that a clipped norm of NaN has made NaN.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([p for part in parts for group in part.param_groups for p in group["params"]], {})
        self.parts = tuple(parts)

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


def _counts_on_device(part: torch.optim.Optimizer) -> bool:
    """Fused optimizers keep their step count on the GPU, the others on the CPU."""
    return any(group.get("fused") or group.get("capturable") for group in part.param_groups)


def build_optimizers(config: OptimizerConfig, network: nn.Module, loss: nn.Module) -> Optimizers:
    """The configured optimizer over a network's parameters and those of a loss (a learned temperature)."""
    named: Named = {name: p for name, p in network.named_parameters() if p.requires_grad}
    of_loss: Named = {f"loss.{name}": p for name, p in loss.named_parameters()}
    matrices = hidden_matrices(network) if config.name == "muon" else set()
    moved = {name: p for name, p in named.items() if name in matrices}
    rest = {name: p for name, p in named.items() if name not in matrices}
    parts: list[torch.optim.Optimizer] = []
    if moved:
        parts.append(_muon(config, moved))
    groups = _groups(config, rest, of_loss)
    if groups:
        name, rate = (config.others, config.others_lr) if config.name == "muon" else (config.name, config.lr)
        parts.append(_optimizer(config, name, rate, groups))
    rates = tuple(group["lr"] for part in parts for group in part.param_groups)
    return Optimizers(tuple(parts), {**named, **of_loss}, rates, config.clip_norm)


def hidden_matrices(network: nn.Module) -> set[str]:
    """Names of the weights that Muon moves: two dimensions or more, and neither the first nor the last layer, a
    classifier, or a table of embeddings, whose rows are no directions of one map."""
    tables = {
        f"{name}.weight"
        for name, module in network.named_modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
    }
    matrices = [name for name, p in network.named_parameters() if p.ndim > 1 and p.requires_grad and name not in tables]
    of_model = [name for name in matrices if not name.startswith("classifier.")]
    return set(of_model[1:-1])


def _groups(config: OptimizerConfig, named: Named, of_loss: Named) -> list[dict[str, Any]]:
    own = config.others_weight_decay if config.name == "muon" else None
    decay = config.weight_decay if own is None else own
    decayed = [p for p in named.values() if config.decay == "all" or p.ndim > 1]
    spared = [p for p in named.values() if not (config.decay == "all" or p.ndim > 1)] + list(of_loss.values())
    groups = [
        {"params": decayed, "weight_decay": decay},
        {"params": spared, "weight_decay": 0.0},  # a decayed temperature would drift to its floor's neighbourhood
    ]
    return [group for group in groups if group["params"]]


def _muon(config: OptimizerConfig, named: Named) -> Muon:
    return Muon(
        named.values(),
        config.lr,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=config.weight_decay,
    )


def _optimizer(config: OptimizerConfig, name: str, rate: float, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    fused = _all_on_gpu(parameter for group in groups for parameter in group["params"])
    if name == "lars":
        return LARS(groups, rate, momentum=config.momentum, trust=config.trust)
    if name == "adamw":
        return torch.optim.AdamW(groups, rate, betas=config.betas, eps=config.eps, fused=fused)
    return torch.optim.SGD(groups, rate, momentum=config.momentum, nesterov=config.nesterov, fused=fused)


def _all_on_gpu(parameters: Iterable[nn.Parameter]) -> bool:
    return all(parameter.is_cuda for parameter in parameters)
