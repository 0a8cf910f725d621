"""SupCon with the call and the numbers of its authors' repository, SupContrast."""

from typing import Literal, final

import torch
from torch import Tensor, nn

from sincere import functional as SF
from sincere.checks import check_choice, check_temperature, is_number, shape_of
from sincere.errors import InputError, OptionError
from sincere.losses.options import LossOptions
from sincere.losses.relation import compact_ids

ContrastMode = Literal["all", "one"]


@final
class SupConLoss(nn.Module):
    r"""SupCon of features that the caller has normalised, times temperature / base_temperature.

    .. math:: L = \frac{\tau}{\tau_0} \cdot \frac{1}{n} \sum_{t=1}^{n} \frac{1}{\sum_p w_{tp}} \sum_{p \in P} -w_{tp}
              \log \frac{e^{z_t \cdot z_p / \tau}}{\sum_{a \in A} e^{z_t \cdot z_a / \tau}}

    with τ₀ the base_temperature, and w = 1 unless a mask weighs the pairs.

    Source: Khosla et al., 2020, arXiv 2004.11362, Eq. 2; the call is that of github.com/HobbitLong/SupContrast.
    Conventions: features are *not* normalised here. The mean is over all anchors, and an anchor without positives
    adds 0 to it. Every label is a class, −1 too.
    Differs from: :class:`sincere.SupConLoss`, which normalises, takes the mean over anchors that have a positive, and
    has no base_temperature. The authors' code, which gives NaN for long features and computes in half precision
    under autocast; here it is single precision at least.

    **base_temperature** multiplies the loss by the constant τ/τ₀ and does nothing else. Logits are similarities over
    τ, so gradients grow as τ shrinks; the factor undoes that, and acts like a change of the learning rate. It also
    makes values incomparable: with the defaults here a temperature of 0.1 gives 10/7 of the equation's value. Our own
    losses have none, because the floors and the information bound that tell whether a value is good hold for the
    equation alone. Pass base_temperature=temperature to get the equation's value.

    Args:
        temperature: τ.
        contrast_mode: "all": every view is an anchor. "one": the first view of each sample is, and it is contrasted
            with all views but itself.
        base_temperature: τ₀, see above.

    >>> import torch
    >>> features = torch.nn.functional.normalize(torch.randn(8, 2, 16), dim=-1)
    >>> loss = SupConLoss(temperature=0.1)
    >>> supervised = loss(features, torch.arange(8) // 2)
    >>> simclr = loss(features)
    """

    def __init__(
        self, temperature: float = 0.07, contrast_mode: ContrastMode = "all", base_temperature: float = 0.07
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        check_choice("contrast_mode", contrast_mode, ("all", "one"))
        _check_base_temperature(base_temperature)
        self.temperature = temperature
        self.contrast_mode = contrast_mode
        self.base_temperature = base_temperature

    def forward(self, features: Tensor, labels: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """The loss of one batch.

        Args:
            features: (b, v, …), v views of b samples; what follows the views is flattened.
            labels: (b,) classes. Neither labels nor mask: the other views of a sample are its positives (SimCLR).
            mask: (b, b) weights ≥ 0, mask[i, j] > 0 where j is a positive of i; it need not be symmetric. It holds
                for all views of i and j; an anchor is never its own positive, whatever the diagonal says.
        """
        _check_features(features)
        z = features.flatten(2)
        options: LossOptions = {"temperature": self.temperature, "similarity": "dot", "reduction": "none"}
        if mask is None:
            per_anchor = SF.supcon(z, _classes(features, labels), **options)
        else:
            per_anchor = SF.soft_label(z, _pair_weights(features, labels, mask), targets="pairs", **options)
        anchors = per_anchor[:, :1] if self.contrast_mode == "one" else per_anchor
        mean = anchors.sum() / max(anchors.numel(), 1)
        return mean * (self.temperature / self.base_temperature)

    def extra_repr(self) -> str:
        return (
            f"temperature={self.temperature}, contrast_mode={self.contrast_mode!r}, "
            f"base_temperature={self.base_temperature}"
        )


def _classes(features: Tensor, labels: Tensor | None) -> Tensor:
    """One class number from 0 up per sample, so that no label means "unlabelled"; without labels a class of its own."""
    samples = features.shape[0]
    if labels is None:
        return torch.arange(samples, device=features.device)
    if not isinstance(labels, Tensor):
        raise InputError(f"labels must be a torch.Tensor: got {type(labels).__name__}. Use torch.as_tensor(...).")
    if labels.shape not in ((samples,), (samples, 1)):
        raise InputError(
            f"labels must hold one class per sample of features: expected ({samples},), got {shape_of(labels)}."
        )
    flat = labels.detach().to(features.device).flatten()
    if flat.is_floating_point():
        _, flat = torch.unique(flat, return_inverse=True)
    return compact_ids(flat.long())


def _pair_weights(features: Tensor, labels: Tensor | None, mask: object) -> Tensor:
    samples = features.shape[0]
    if labels is not None:
        raise InputError(
            "labels and mask both say who is a positive of whom, so only one of them can be given: got both. "
            "Pass mask alone, or multiply it by labels[:, None] == labels first."
        )
    if not isinstance(mask, Tensor) or tuple(mask.shape) != (samples, samples):
        came = shape_of(mask) if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(
            f"mask must hold one weight per pair of samples: expected ({samples}, {samples}), got {came}. "
            "Views are not counted: the mask is repeated for them."
        )
    return mask.detach().to(features.device)


def _check_features(features: object) -> None:
    if not isinstance(features, Tensor):
        raise InputError(f"features must be a torch.Tensor: got {type(features).__name__}.")
    if not features.is_floating_point():
        raise InputError(f"features must be floating-point: got {features.dtype}. Call .float() on it.")
    if features.ndim < 3:
        raise InputError(
            f"features must have shape (b, v, …), v views of b samples: got {shape_of(features)}. "
            "For one view per sample call features.unsqueeze(1)."
        )


def _check_base_temperature(value: object) -> None:
    if not is_number(value) or not 0 < value < float("inf"):
        raise OptionError(
            f"base_temperature must be a positive finite number: got {value!r}. "
            "Pass base_temperature=temperature for the equation's value."
        )
