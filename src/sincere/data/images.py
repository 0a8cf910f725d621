"""Image files, decoded by several threads and brought to one size."""

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from sincere.data.attempts import attempted
from sincere.data.labelled import Form, check_room_for
from sincere.data.options import Settings
from sincere.data.samples import Classes, Note, Rendered, legible
from sincere.errors import InputError
from sincere.optional import bring
from sincere.types import Kind

SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"])
PROBED = 500  # files whose headers are read to find the most common size
LARGEST = 224  # pixels of the shorter side where the caller names no size: all images have to fit into memory
EXIF_ORIENTATION = 0x0112
BYTE, WORD = 255, 65535  # white in 8 and in 16 bits
DARK = 4095  # of 16 bits, the largest that a camera of 12 bits writes: no more than 16 of 256 levels are left of it
THREADS = min(16, os.cpu_count() or 1)

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files of any sizes and colour modes."""

    paths: tuple[Path, ...]
    classes: Classes

    @property
    def kind(self) -> Kind:
        return "image"

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(map(legible, self.paths))

    def form(self, settings: Settings) -> Form:
        """The most common size of a sample of the files, grey when all of them are.

        Where most have another, the most common one is chance: then a square of the usual shorter side.
        """
        probed = self.paths[:: max(len(self.paths) // PROBED, 1)]
        headers = [header for header in _in_threads(_header, probed) if not isinstance(header, Exception)]
        if not headers:
            raise InputError(f"none of the {len(self.paths):,} images can be read; the first is {self.paths[0]}.")
        channels = 1 if all(grey for _, grey in headers) else 3
        if settings.image_size is not None:
            return Form("image", (channels, settings.image_size, settings.image_size))
        (height, width), count = Counter(size for size, _ in headers).most_common(1)[0]
        if 2 * count < len(headers):
            height = width = int(median_low(min(size) for size, _ in headers))
        if min(height, width) > LARGEST:
            height = width = LARGEST
        return Form("image", (channels, height, width))

    def render(self, form: Form) -> Rendered:
        check_room_for(len(self.paths), form, "Read fewer at once, or smaller ones: image_size=….")
        pixels = np.zeros((len(self.paths), *form.shape), np.uint8)

        def decode(index: int, white: int = WORD) -> _Change:
            pixels[index], change = _pixels(self.paths[index], form, white)
            return change

        changes = _in_threads(decode, range(len(self.paths)))
        deep, wide = _largest_values(changes, 16), _largest_values(changes, 32)
        # 32 bits do not say what is white. All images decide it together, for one of them may simply be black.
        if of_bytes := bool(wide) and max(wide.values()) <= BYTE:
            _in_threads(partial(decode, white=BYTE), wide)
        unreadable = {i: _why(change) for i, change in enumerate(changes) if isinstance(change, Exception)}
        notes, read = [], len(changes) - len(unreadable)
        if resized := sum(isinstance(change, _Change) and change.resized for change in changes):
            size = f"{form.shape[1]}×{form.shape[2]}"
            words = f"{resized:,} of {read:,} images were scaled and cropped to {size}"
            notes.append(Note(words, "the option image_size chooses another"))
        if greyed := sum(isinstance(change, _Change) and change.greyed for change in changes):
            notes.append(Note(f"{greyed:,} of {read:,} images lost their colour, as most have none"))
        if of_bytes:
            words = f"{len(wide):,} of {read:,} images have 32 bits and no value above 255"
            notes.append(Note(f"{words}: 255 is taken for white"))
        scaled = deep if of_bytes else deep | wide
        if scaled and max(scaled.values()) <= DARK:
            words = f"{len(scaled):,} of {read:,} images have 16 or 32 bits and no value above"
            notes.append(Note(f"{words} {max(scaled.values()):,} of 65,535: they are dark, scale them before"))
        return Rendered(torch.from_numpy(pixels), unreadable, tuple(notes))


class _Change(NamedTuple):
    """What had to be done to an image to bring it to the form."""

    resized: bool
    greyed: bool
    bits: int = 8  # of a channel
    largest: int = 0  # value, where these are more than 8


def _why(error: Exception) -> str:
    """Why an image cannot be read, without its name, which stands before."""
    return "no image that Pillow knows" if isinstance(error, _pillow("Image").UnidentifiedImageError) else str(error)


def _largest_values(changes: list[_Change | Exception], bits: int) -> dict[int, int]:
    """The largest value of each image of that many bits, by its index."""
    found = ((i, change) for i, change in enumerate(changes) if isinstance(change, _Change))
    return {i: change.largest for i, change in found if change.bits == bits}


def _in_threads(function: Callable[[Any], T], items: Any) -> list[T | Exception]:
    """`function` of every item, or the exception that it raised."""
    _pillow("Image")  # here, where a message is not taken for a bad file
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(attempted(function), items))


def _pillow(module: str) -> Any:
    return bring(f"PIL.{module}", extra="lab", purpose="reading image files")


def _header(path: Path) -> tuple[tuple[int, int], bool]:
    """Height and width as they are seen, and whether the image is grey."""
    pillow = _pillow("Image")
    with pillow.open(path) as image:
        width, height = _size_seen(image)
        return (height, width), _is_grey(image)


def _size_seen(image: Any) -> tuple[int, int]:
    """Width and height once the image is turned as its EXIF data says; 5 to 8 exchange the sides."""
    width, height = image.size
    if image.format == "PNG" and "exif" not in image.info:  # Pillow would decode it whole to look behind the pixels
        return width, height
    return (height, width) if image.getexif().get(EXIF_ORIENTATION, 1) in (5, 6, 7, 8) else (width, height)


def _is_grey(image: Any) -> bool:
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _pixels(path: Path, form: Form, white: int) -> tuple[npt.NDArray[np.uint8], _Change]:
    """An image as (c, h, w), and what this changed; `white` is the value of it in 32 bits."""
    pillow = _pillow("Image")
    operations = _pillow("ImageOps")
    channels, height, width = form.shape
    with pillow.open(path) as opened:
        change = _Change(_size_seen(opened) != (width, height), channels == 1 and not _is_grey(opened))
        opened.draft(None, (2 * width, 2 * height))  # lets a JPEG decode at a fraction of a far larger size
        operations.exif_transpose(opened, in_place=True)
        if opened.mode.startswith("I"):  # Pillow would clip at 255
            wide = opened.mode == "I" and opened.format == "TIFF"  # a PGM has that mode, too, and is of 16 bits
            levels = _of_16_bits(np.asarray(opened, np.int64))
            change = change._replace(bits=32 if wide else 16, largest=int(levels.max()))
            image = pillow.fromarray((levels // ((white if wide else WORD) // BYTE)).astype(np.uint8))
        else:
            image = opened
        image = _opaque(image, "L" if channels == 1 else "RGB", pillow)
        image.load()  # while the file is open
    if image.size != (width, height):
        image = operations.fit(image, (width, height), pillow.Resampling.BICUBIC)
    values = np.asarray(image, np.uint8)
    return (values[None] if channels == 1 else values.transpose(2, 0, 1)), change


def _opaque(image: Any, mode: str, pillow: Any) -> Any:
    """The image in 8-bit grey or RGB; what is transparent shows white."""
    if image.mode == "F":
        raise ValueError("holds floating-point pixels: save it with 8 bits per channel")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)


def _of_16_bits(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    least, largest = int(values.min()), int(values.max())
    if least < 0 or largest > WORD:
        raise ValueError(
            f"holds values from {least:,} to {largest:,}, not from 0 to 65,535: scale them, and save it with 8 or 16 "
            "bits per channel"
        )
    return values
