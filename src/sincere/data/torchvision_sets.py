"""torchvision's data sets by name, where torchvision is installed and has them on disk."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sincere.checks import did_you_mean, is_integral
from sincere.data.labelled import Form, check_room_for
from sincere.data.options import Settings
from sincere.data.ready import Ready, fit_images, images_from
from sincere.data.samples import Found, classes_of_numbers
from sincere.errors import InputError, OptionError
from sincere.optional import bring

PARTS = (("train", "trainval", "train-standard"), ("test", "val"))  # what their `split` calls the two, the first known


def read_torchvision(name: str, root: Path, settings: Settings) -> Found:
    """The train and test parts of `torchvision.datasets.NAME(root)`; downloads nothing."""
    sets = bring("torchvision.datasets", extra="vision", purpose=f"torchvision:{name}")
    known = sorted(attribute for attribute in dir(sets) if inspect.isclass(getattr(sets, attribute)))
    if name not in known:
        same = next((one for one in known if one.lower() == name.lower()), name)
        raise OptionError(
            f"torchvision:NAME:ROOT must name one of {', '.join(known)}: got {name!r}.{did_you_mean(same, known)}"
        )
    dataset = getattr(sets, name)
    options = inspect.signature(dataset).parameters
    if "train" in options:
        train, test = (_opened(name, dataset, root, {"train": choice}) for choice in (True, False))
    elif "split" in options:
        train, test = (_first_known(name, dataset, root, choices) for choices in PARTS)
    else:
        raise OptionError(f"torchvision:{name} has neither train nor test part: export it as a folder of images.")
    for part in (train, test):
        _check_pairs(name, part)
    form = _shape_of(train, settings)
    return Found(name.lower(), _samples(train, form), test=_samples(test, form))


def _first_known(name: str, dataset: Any, root: Path, choices: Sequence[str]) -> Any:
    """The part by the first of its names that the data set knows."""
    for choice in choices:
        try:
            return _opened(name, dataset, root, {"split": choice})
        except InputError as error:
            if "for argument split" not in str(error.__cause__):
                raise
            refused = error
    raise OptionError(
        f"torchvision:{name} has no part called {' or '.join(choices)}: {refused.__cause__} Export it as a folder of "
        "images with a train and a test folder."
    )


def _opened(name: str, dataset: Any, root: Path, choice: Mapping[str, object]) -> Any:
    try:
        return dataset(str(root), **choice)
    except TypeError as error:  # it wants to be told more than its root
        raise OptionError(f"torchvision:{name} is not a data set of images with a class each: {error}.") from error
    except (ImportError, RuntimeError, OSError, ValueError) as error:
        downloads = "download" in inspect.signature(dataset).parameters
        advice = (
            f" If it is not there yet: torchvision.datasets.{name}({str(root)!r}, download=True)." if downloads else ""
        )
        said = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"torchvision:{name} cannot be read from {root}: {said}.{advice}") from error


def _check_pairs(name: str, dataset: Any) -> None:
    """Images with one whole number each, and not boxes, attributes or nothing."""
    if len(dataset) == 0:
        raise InputError(f"torchvision:{name} must have images in both parts: one of them is empty.")
    first = dataset[0]
    label = first[1] if isinstance(first, tuple) and len(first) == 2 else None
    if not is_integral(label):
        came = f"a {type(label).__name__} with the first" if label is not None else "no such pair"
        raise InputError(f"torchvision:{name} must give images with the number of a class each: it gives {came}.")


def _shape_of(dataset: Any, settings: Settings) -> Form:
    """The form of the first image, so that data sets of photographs are scaled while they are read."""
    image = np.asarray(dataset[0][0])
    height, width = image.shape[:2]
    if settings.image_size is not None:
        height = width = settings.image_size
    return Form("image", (1 if image.ndim == 2 else 3, height, width))


def _samples(dataset: Any, form: Form) -> Ready:
    check_room_for(len(dataset), form, "Read smaller ones: image_size=….")
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
