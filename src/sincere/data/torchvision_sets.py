"""torchvision's data sets by name, where torchvision is installed and has them on disk."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sincere.data.labelled import Form
from sincere.data.optional import bring
from sincere.data.options import Settings
from sincere.data.ready import Ready, fit_images, images_from
from sincere.data.samples import Found, classes_of_numbers
from sincere.errors import InputError, OptionError


def read_torchvision(name: str, root: Path, settings: Settings) -> Found:
    """The train and test parts of `torchvision.datasets.NAME(root)`; downloads nothing."""
    sets = bring("torchvision.datasets", extra="vision", purpose=f"torchvision:{name}")
    known = sorted(attribute for attribute in dir(sets) if inspect.isclass(getattr(sets, attribute)))
    if name not in known:
        raise OptionError(f"torchvision:NAME:ROOT must name one of {', '.join(known)}: got {name!r}.")
    dataset = getattr(sets, name)
    options = inspect.signature(dataset).parameters
    if "train" in options:
        choices: tuple[dict[str, Any], dict[str, Any]] = ({"train": True}, {"train": False})
    elif "split" in options:
        choices = ({"split": "train"}, {"split": "test"})
    else:
        raise OptionError(f"torchvision:{name} has neither train nor test part: export it as a folder of images.")
    try:
        parts = [dataset(str(root), **choice) for choice in choices]
    except (RuntimeError, FileNotFoundError, ValueError) as error:
        raise InputError(
            f"torchvision:{name} cannot be read from {root}: {error} Download it once with "
            f"torchvision.datasets.{name}({str(root)!r}, download=True)."
        ) from error
    shape = _shape_of(parts[0], settings)
    train, test = (_samples(part, shape) for part in parts)
    return Found(name.lower(), train, test=test)


def _shape_of(dataset: Any, settings: Settings) -> Form:
    """The form of the first image, so that data sets of photographs are scaled while they are read."""
    image = np.asarray(dataset[0][0])
    height, width = image.shape[:2]
    if settings.image_size is not None:
        height = width = settings.image_size
    return Form("image", (1 if image.ndim == 2 else 3, height, width))


def _samples(dataset: Any, form: Form) -> Ready:
    images, labels = torch.empty((len(dataset), *form.shape), dtype=torch.uint8), []
    for index, (image, label) in enumerate(dataset):
        pixels = images_from(np.asarray(image, np.uint8)[None], f"image {index}")
        images[index] = pixels[0] if tuple(pixels.shape[1:]) == form.shape else fit_images(pixels, form.shape)[0]
        labels.append(int(label))
        if index + 1 == len(dataset):
            break  # some data sets have a length but iterate by __getitem__ until it raises
    names = getattr(dataset, "classes", None)
    known = names if names and len(names) > max(labels) else None
    return Ready(images, classes_of_numbers(np.asarray(labels, np.int64), known), "image")
