"""Crops, flips, shifts and turns: single transforms against Pillow, numpy and torch; distributions against
torchvision's documented procedure, written anew."""

import importlib
import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from scipy import stats

from sincere.errors import InputError, OptionError
from sincere.views import Flip, Hole, ResizedCrop, ShiftedCrop, Warp
from sincere.views.geometry import crop_boxes
from sincere.views.resampling import interval_weights, resample

ENOUGH = 1e-3  # p-value below which two samples are called different; every generator here is seeded


def photo(h, w, channels=3, seed=0):
    """A smooth random picture, uint8 (h, w, channels), so that interpolation has something to do."""
    coarse = torch.rand(1, channels, 6, 6, generator=torch.Generator().manual_seed(seed))
    fine = F.interpolate(coarse, size=(h, w), mode="bicubic", align_corners=True).clamp(0, 1)
    return (fine[0] * 255).round().byte().permute(1, 2, 0).numpy()


def batch_of(picture):
    return torch.from_numpy(picture).permute(2, 0, 1).unsqueeze(0).float()


def crop(image, box, target):
    top, left, height, width = (torch.tensor([float(value)]) for value in box)
    rows = interval_weights(top, height, image.shape[2], target[0])
    return resample(image, rows, interval_weights(left, width, image.shape[3], target[1]))


BOXES = [((3, 5, 17, 11), (32, 32)), ((0, 0, 40, 48), (32, 32)), ((7, 1, 30, 47), (12, 20)), ((2, 2, 1, 3), (8, 8))]


@pytest.mark.parametrize(("box", "target"), BOXES)
def test_a_crop_is_pillows_and_torchs(box, target):
    picture = photo(40, 48)
    ours = crop(batch_of(picture), box, target)[0]
    top, left, height, width = box
    part = batch_of(picture)[:, :, top : top + height, left : left + width]
    of_torch = F.interpolate(part, size=target, mode="bilinear", antialias=True, align_corners=False)[0]
    torch.testing.assert_close(ours, of_torch, atol=2e-3, rtol=0)
    image = Image.fromarray(picture).crop((left, top, left + width, top + height))
    of_pillow = np.asarray(image.resize((target[1], target[0]), Image.Resampling.BILINEAR), dtype=np.float32)
    assert np.abs(ours.permute(1, 2, 0).numpy() - of_pillow).max() <= 1.01  # Pillow rounds after each axis


def documented_box(rng, h, w, scale, ratio):
    """torchvision's RandomResizedCrop.get_params, as its documentation describes it."""
    for _ in range(10):
        area = h * w * rng.uniform(*scale)
        shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        width, height = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < width <= w and 0 < height <= h:
            return rng.randint(0, h - height), rng.randint(0, w - width), height, width
    height, width = h, w
    if w / h < min(ratio):
        height = round(w / min(ratio))
    elif w / h > max(ratio):
        width = round(h * max(ratio))
    return (h - height) // 2, (w - width) // 2, height, width


def boxes(n, h, w, scale, ratio=(3 / 4, 4 / 3)):
    numbers = torch.rand(n, 22, generator=torch.Generator().manual_seed(1))
    return crop_boxes(numbers, (h, w), scale, ratio).double().numpy()


@pytest.mark.parametrize(("h", "w", "scale"), [(32, 32, (0.2, 1.0)), (96, 64, (0.08, 1.0)), (12, 48, (0.2, 1.0))])
def test_boxes_are_distributed_as_documented(h, w, scale):
    rng = random.Random(0)
    theirs = np.array([documented_box(rng, h, w, scale, (3 / 4, 4 / 3)) for _ in range(4000)], dtype=float)
    ours = boxes(4000, h, w, scale)
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, 0] + ours[:, 2] <= h).all()
    assert (ours[:, 1] + ours[:, 3] <= w).all()
    for facts in (
        lambda b: b[:, 2] * b[:, 3],
        lambda b: b[:, 3] / b[:, 2],
        lambda b: b[:, 0],
        lambda b: b[:, 1],
        lambda b: b[:, 0] / (h - b[:, 2] + 1),
    ):
        assert stats.ks_2samp(facts(ours), facts(theirs)).pvalue > ENOUGH


def test_area_is_uniform_where_every_box_fits():
    found = boxes(20_000, 1000, 1000, (0.2, 0.6))
    share = found[:, 2] * found[:, 3] / 1e6
    assert stats.kstest(share, stats.uniform(0.2, 0.4).cdf).pvalue > ENOUGH
    log_ratio = np.log(found[:, 3] / found[:, 2])
    low, high = math.log(3 / 4), math.log(4 / 3)
    assert stats.kstest(log_ratio, stats.uniform(low, high - low).cdf).pvalue > ENOUGH


@pytest.mark.parametrize(("h", "w", "middle"), [(4, 40, (0, 17, 4, 5)), (40, 4, (17, 0, 5, 4)), (9, 9, (0, 0, 9, 9))])
def test_after_ten_tries_the_middle(h, w, middle):
    numbers = torch.full((1, 22), 1 - 2**-24)  # the largest area at the widest ratio never fits
    assert crop_boxes(numbers, (h, w), (0.9, 1.0), (3 / 4, 4 / 3))[0].tolist() == list(middle)


def test_boxes_are_distributed_as_torchvisions():
    try:
        transforms = importlib.import_module("torchvision.transforms")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision does not import here: {error}")
    torch.manual_seed(0)
    image = torch.zeros(3, 32, 32)
    get = transforms.RandomResizedCrop.get_params
    theirs = np.array([get(image, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)], dtype=float)
    ours = boxes(4000, 32, 32, (0.2, 1.0))
    for column in range(4):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > ENOUGH


def test_crop_keeps_or_sets_the_size():
    images, numbers = torch.rand(3, 3, 20, 30), torch.rand(3, 22)
    assert ResizedCrop()(images, numbers).shape == (3, 3, 20, 30)
    assert ResizedCrop(size=16)(images, numbers).shape == (3, 3, 16, 16)
    assert ResizedCrop(size=16).shape_after((3, 20, 30)) == (3, 16, 16)


def test_flip():
    images = torch.rand(2000, 1, 2, 3)
    numbers = torch.rand(2000, 1, generator=torch.Generator().manual_seed(0))
    flipped = Flip(0.3)(images, numbers)
    moved = (flipped == images.flip(3)).all(dim=(1, 2, 3))
    assert torch.equal(flipped[~moved], images[~moved])
    assert stats.binomtest(int(moved.sum()), 2000, 0.3).pvalue > ENOUGH


def test_a_flip_that_alternates_takes_turns():
    """Every even turn is mirrored and every odd one is not, whatever was drawn; without turns it is chance."""
    images = torch.rand(500, 1, 2, 3)
    numbers, flip = torch.rand(500, 1, generator=torch.Generator().manual_seed(0)), Flip(alternate=True)
    turns = torch.randint(0, 1000, (500,), generator=torch.Generator().manual_seed(1))
    made = flip(images, flip.with_turns(numbers, turns))
    for image, result, turn in zip(images.numpy(), made.numpy(), turns.tolist(), strict=True):
        np.testing.assert_array_equal(result, image if turn % 2 else np.flip(image, axis=2))
    assert torch.equal(flip(images, numbers), Flip()(images, numbers))
    assert torch.equal(Flip().with_turns(numbers, turns), numbers), "a plain flip has no turns"
    assert torch.equal(ShiftedCrop().with_turns(numbers, turns), numbers)


def test_shift_is_numpys_reflected_padding():
    images = torch.rand(81, 3, 9, 7)
    steps = (torch.arange(9) + 0.5) / 9
    numbers = torch.cartesian_prod(steps, steps)  # every pair of shifts once
    shifted = ShiftedCrop(4)(images, numbers)
    seen = set()
    for image, result, (y, x) in zip(images.numpy(), shifted.numpy(), (numbers * 9).int().tolist(), strict=True):
        padded = np.pad(image, ((0, 0), (4, 4), (4, 4)), mode="reflect")
        np.testing.assert_array_equal(result, padded[:, y : y + 9, x : x + 7])
        seen.add((y, x))
    assert len(seen) == 81


def test_warp_turns_and_shifts():
    image = torch.rand(1, 2, 8, 8)
    still = torch.full((1, 6), 0.5)
    torch.testing.assert_close(Warp()(image, still), image)
    quarter = still.clone()
    quarter[0, 0] = 1.0
    turned = Warp(degrees=90, zoom=0, slant=0, shift=0)(image, quarter)
    torch.testing.assert_close(turned, torch.rot90(image, 1, (2, 3)), atol=1e-5, rtol=0)
    right = still.clone()
    right[0, 4] = 1.0  # a quarter of the side is two pixels
    moved = Warp(degrees=0, zoom=0, slant=0, shift=0.25)(image, right)
    torch.testing.assert_close(moved[..., :-2], image[..., 2:], atol=1e-5, rtol=0)
    assert (moved[..., -2:].abs() < 1e-5).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ResizedCrop(scale=(0.5, 1.5)), OptionError, ["share", "at most 1", "1.5"]),
        (lambda: ResizedCrop(scale=(0.5, 0.2)), OptionError, ["low ≤ high", "(0.5, 0.2)"]),
        (lambda: ResizedCrop(ratio=(0.0, 1.0)), OptionError, ["ratio", "0.0"]),
        (lambda: ResizedCrop(size=0), OptionError, ["size", "at least 1"]),
        (lambda: Flip(1.5), OptionError, ["p ", "between 0 and 1", "1.5"]),
        (lambda: Flip(0.3, alternate=True), OptionError, ["every other view", "p=0.5", "p=0.3"]),
        (lambda: ShiftedCrop(0), OptionError, ["pixels", "at least 1"]),
        (lambda: ShiftedCrop(8).numbers((1, 8, 8)), InputError, ["the 8 pixels", "8×8", "shift={'pixels': 1}"]),
        (lambda: ShiftedCrop(1).numbers((3, 1, 5)), InputError, ["1×5", "Leave it out: shift=False"]),
        (lambda: Hole(2).numbers((3, 2, 5)), InputError, ["2×5", "hole={'pixels': 1}"]),
        (lambda: Warp(zoom=2), OptionError, ["zoom", "2"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def test_the_middle_of_a_tiny_image_is_at_least_a_pixel():
    images = torch.rand(2, 1, 1, 1)
    assert torch.equal(ResizedCrop(ratio=(3.0, 4.0))(images, torch.rand(2, 22)), images)
    assert torch.equal(ResizedCrop(ratio=(0.2, 0.25))(images, torch.rand(2, 22)), images)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (16, 128), (128, 16)])
def test_a_turn_is_one_of_pixels_in_images_of_any_shape(height, width):
    """A line through the middle, along the longer side, leans by as many degrees as it was told to."""
    image = torch.zeros(1, 1, height, width)
    along = int(width >= height)
    if along:
        image[..., height // 2 - 1 : height // 2 + 1, :] = 1
    else:
        image[..., width // 2 - 1 : width // 2 + 1] = 1
    numbers = torch.full((1, 6), 0.5)
    numbers[0, 0] = 1.0
    turned = Warp(degrees=3, zoom=0, slant=0, shift=0)(image, numbers)[0, 0].double()
    turned = turned if along else turned.T  # the line runs along the columns
    inside = turned.sum(dim=0) > 1.9  # all of its width
    heights = (turned * torch.arange(turned.shape[0]).unsqueeze(1)).sum(dim=0)[inside] / turned.sum(dim=0)[inside]
    places = torch.arange(turned.shape[1])[inside].double()
    slope = np.polyfit(places.numpy(), heights.numpy(), 1)[0]
    assert abs(math.degrees(math.atan(slope))) == pytest.approx(3, abs=0.1)
