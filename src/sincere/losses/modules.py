"""The losses as `nn.Module`s: a module remembers the options, the function of the same name computes."""

from typing import Unpack

from torch import Tensor

from sincere import functional as SF
from sincere.losses.contrastive_loss import ContrastiveLoss, ModuleOptions, remembers_options
from sincere.losses.eps_supinfonce import check_epsilon
from sincere.losses.infonce import check_without_labels
from sincere.losses.options import Settings
from sincere.losses.pairs import SoftTargets
from sincere.losses.rank_n_contrast import Distance, Ties, check_ranking
from sincere.losses.set_nce import Method, check_sets
from sincere.losses.soft_label import check_targets
from sincere.losses.spread import check_alpha
from sincere.losses.supcon import Form, check_form

__all__ = [
    "ContrastiveLoss",
    "DecoupledLoss",
    "EpsSupInfoNCELoss",
    "InfoNCELoss",
    "RankNContrastLoss",
    "SINCERELoss",
    "SetLoss",
    "SoftLabelLoss",
    "SpreadLoss",
    "SupConLoss",
]


class SINCERELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.sincere`: a positive competes with the negatives alone.

    Options are given by name; :class:`sincere.losses.options.LossOptions` lists those that every loss takes.

    >>> import torch
    >>> loss = SINCERELoss(temperature=0.1)
    >>> embeddings = torch.randn(8, 16, requires_grad=True)
    >>> loss(embeddings, torch.arange(8) // 2).backward()
    """

    function = staticmethod(SF.sincere)


class InfoNCELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.infonce`: (b, v, d) embeddings, no labels."""

    function = staticmethod(SF.infonce)

    def check_own(self, settings: Settings) -> None:
        check_without_labels(settings)

    def forward(  # type: ignore[override]  # it is the one loss without labels
        self, embeddings: Tensor, contrast_embeddings: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        return self.function(embeddings, contrast_embeddings, **self.call_options(weights))


class DecoupledLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.decoupled`: the positive itself is not in the denominator."""

    function = staticmethod(SF.decoupled)


class SupConLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.supcon`: a positive competes with everybody else."""

    function = staticmethod(SF.supcon)

    @remembers_options
    def __init__(self, *, form: Form = "out", **options: Unpack[ModuleOptions]) -> None:
        """form: the mean over positives "out" of the logarithm, Eq. 2 of the paper, or "in" it, Eq. 3."""

    def check_own(self, settings: Settings) -> None:
        check_form(self.own_options["form"])


class EpsSupInfoNCELoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.eps_supinfonce`: SINCERE with a margin on sim/temperature."""

    function = staticmethod(SF.eps_supinfonce)

    @remembers_options
    def __init__(self, *, epsilon: float = 0.25, **options: Unpack[ModuleOptions]) -> None:
        """epsilon: the margin, a number from 0 up."""

    def check_own(self, settings: Settings) -> None:
        check_epsilon(self.own_options["epsilon"])


class SpreadLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.spread`: (b, v, d) embeddings."""

    function = staticmethod(SF.spread)

    @remembers_options
    def __init__(self, *, alpha: float = 0.5, **options: Unpack[ModuleOptions]) -> None:
        """alpha: the share of the term that tells members of a class apart, 0 to 1."""

    def check_own(self, settings: Settings) -> None:
        check_alpha(self.own_options["alpha"])


class SoftLabelLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.soft_label`: labels are probabilities, or weights of pairs."""

    function = staticmethod(SF.soft_label)

    @remembers_options
    def __init__(self, *, targets: SoftTargets = "classes", **options: Unpack[ModuleOptions]) -> None:
        """targets: what labels are, probabilities of "classes" (n, classes), or weights of "pairs" (n, m)."""

    def check_own(self, settings: Settings) -> None:
        check_targets(self.own_options["targets"], settings)


class RankNContrastLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.rank_n_contrast`: labels are numbers, as in regression."""

    function = staticmethod(SF.rank_n_contrast)

    @remembers_options
    def __init__(self, *, ties: Ties = "compete", distance: Distance = "l1", **options: Unpack[ModuleOptions]) -> None:
        """ties: whether contrasts at the same distance "compete", as in the paper, or are "spared"; distance: of rows
        of numbers, "l1" or "l2"."""

    def check_own(self, settings: Settings) -> None:
        check_ranking(self.own_options["ties"], self.own_options["distance"], settings)


class SetLoss(ContrastiveLoss):
    """Module form of :func:`sincere.functional.set_nce`: all members of a class at once."""

    function = staticmethod(SF.set_nce)

    @remembers_options
    def __init__(self, *, method: Method = "auto", **options: Unpack[ModuleOptions]) -> None:
        """method: "exact", "saddle" (an approximation, faster), or "auto", by the size of the batch."""

    def check_own(self, settings: Settings) -> None:
        check_sets(self.own_options["method"], settings)
