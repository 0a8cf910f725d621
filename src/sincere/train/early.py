"""Smaller views in the first part of a run, which take a part of the time."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.data import LabelledData
from sincere.encoders import EmbeddingModel
from sincere.errors import OptionError
from sincere.train.config import ViewsConfig
from sincere.views import StagedViews
from sincere.views.resampling import interval_weights, resample

REFUSALS = (RuntimeError, ValueError, TypeError, AssertionError)  # of an encoder, at a size that it is not made for


@dataclass(frozen=True)
class Early:
    """The first steps of a run, whose views have this size."""

    steps: int = 0
    size: tuple[int, int] = (0, 0)  # height and width
    cost: float = 1.0  # by the area: the share of a later step's time that one takes, about
    notes: tuple[str, ...] = ()

    def shrunk(self, views: Tensor) -> Tensor:
        """Views (b, count, c, height, width) at this size, resampled with antialiasing."""
        images = views.flatten(0, 1)
        start = images.new_zeros(images.shape[0])
        rows, columns = (
            interval_weights(start, start + size, size, to)
            for size, to in zip(images.shape[2:], self.size, strict=True)
        )
        return resample(images, rows, columns).reshape(*views.shape[:3], *self.size)


@torch.no_grad()
def early_views(
    config: ViewsConfig, model: EmbeddingModel, views: StagedViews, data: LabelledData, *, steps: int
) -> Early:
    """What `config` asks of a run of so many steps before its views have their full size; tried on the encoder."""
    if config.early_size is None:
        return Early()
    if data.kind != "image":
        raise OptionError(f"views.early_size shrinks views of images: {data.name} holds {data.kind} data.")
    plain = views.plain(data.inputs[:1])
    height, width = plain.shape[2:]
    if config.early_size >= min(height, width):
        return Early(
            notes=(f"views.early_size={config.early_size} shrinks nothing: views are {height}×{width} pixels.",)
        )
    if not steps:
        return Early(
            notes=(f"views.early_share={config.early_share:g} of the epochs is less than one: no view is shrunk.",)
        )
    share = config.early_size / min(height, width)
    early = Early(steps, (round(height * share), round(width * share)), share**2)
    training = model.training
    model.eval()
    try:
        model.encoder(early.shrunk(plain.unsqueeze(1)).squeeze(1).expand(2, -1, -1, -1).contiguous())
    except REFUSALS as error:
        raise OptionError(
            f"views.early_size={config.early_size}: this encoder cannot take images of {early.size[0]}×{early.size[1]} "
            f"pixels ({error}). Choose a larger size, or an encoder that takes images of any size."
        ) from error
    finally:
        model.train(training)
    return early
