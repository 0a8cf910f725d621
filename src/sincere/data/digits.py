"""scikit-learn's handwritten digits: real data without a download.

Source: Alpaydin and Kaynak, 1998, Optical Recognition of Handwritten Digits, UCI, doi 10.24432/C50P49 (its test part).
"""

import numpy as np
import torch

from sincere.data.options import Settings
from sincere.data.ready import Ready
from sincere.data.samples import Found, classes_of_numbers
from sincere.errors import OptionError
from sincere.optional import bring


def read_digits(settings: Settings) -> Found:
    """1,797 images of 8×8 with 17 grey levels, spread over 0 to 255; or 64 features from 0 to 16 for kind="array"."""
    if settings.kind not in (None, "image", "array"):
        raise OptionError(f"digits are images, or arrays of 64 features: got kind={settings.kind!r}.")
    values, labels = bring("sklearn.datasets", extra="lab", purpose="the digits data set").load_digits(return_X_y=True)
    classes = classes_of_numbers(labels.astype(np.int64))
    if settings.kind == "array":
        return Found("digits", Ready(torch.from_numpy(values.astype(np.float32)), classes, "array"))
    images = np.round(values * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return Found("digits", Ready(torch.from_numpy(images), classes, "image"))
