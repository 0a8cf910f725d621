"""Thumbnails inside the page: one sheet for a whole set, or a picture at a time."""

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from sincere.report.picture import needs_lab

AS_PNG = 400_000  # bytes of pixels up to which a sheet is kept exactly; a larger one becomes a JPEG
QUALITY = 82


@dataclass(frozen=True)
class Sheet:
    """All thumbnails of a set in one picture, row by row."""

    uri: str
    columns: int
    tile: int  # side of the square that each has, pixels; multiples of 8, so that JPEG's blocks do not mix neighbours
    width: int  # of a thumbnail within its tile
    height: int


def sheet_of(images: Tensor) -> Sheet:
    """Thumbnails (n, h, w) or (n, h, w, 3) on one sheet."""
    n, height, width = images.shape[:3]
    tile, columns = 8 * math.ceil(max(height, width) / 8), math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    sheet = np.zeros((rows * tile, columns * tile, *images.shape[3:]), dtype=np.uint8)
    for place, image in enumerate(images.numpy()):
        top, left = place // columns * tile, place % columns * tile
        sheet[top : top + height, left : left + width] = image
    return Sheet(_uri(sheet), columns, tile, width, height)


def picture_uri(image: Tensor) -> str:
    """One thumbnail, exactly."""
    return _uri(image.numpy())


def _uri(pixels: "np.ndarray") -> str:
    image, file = needs_lab("PIL.Image").fromarray(np.ascontiguousarray(pixels)), io.BytesIO()
    if pixels.nbytes <= AS_PNG:
        image.save(file, format="PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    image.save(file, format="JPEG", quality=QUALITY, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
