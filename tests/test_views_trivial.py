"""TrivialAugment: each operation at every strength against Pillow and NumPy, and how the operations are drawn."""

import importlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage, stats
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sincere.errors import InputError, OptionError
from sincere.views import (
    PRESETS,
    Flip,
    Hole,
    ShiftedCrop,
    StagedViews,
    Statistics,
    TrivialAugment,
    build_views,
)
from sincere.views.trivial import OPERATIONS, Choices, equalizing

ENOUGH = 1e-3
EVERY = range(31)
GEOMETRIC = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
BLENDS = ("brightness", "colour", "contrast", "sharpness")
SIGNED = (*GEOMETRIC, *BLENDS)
TABLES = ("posterize", "solarize", "equalize")


def pictures():
    """Noise; a landscape of few levels, that no stretch leaves alone; one with every level, and not square."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    y, x = np.mgrid[0:32, 0:32] / 31
    waves = np.stack([0.5 + 0.3 * np.sin(5 * x + 2 * y), 0.3 + 0.2 * y, 0.6 - 0.2 * x * y], axis=2)
    ramp = (np.arange(40 * 27 * 3).reshape(40, 27, 3) // 5 % 256).astype(np.uint8)
    return {"noise": noise, "waves": (waves * 255).astype(np.uint8), "ramp": ramp, "grey": ramp[..., 0].copy()}


PICTURES = pictures()


def as_batch(picture):
    channels = picture.reshape(*picture.shape[:2], -1)
    return torch.from_numpy(channels).permute(2, 0, 1).unsqueeze(0).float() / 255


def as_levels(image, like):
    return (image.permute(1, 2, 0).double().numpy() * 255).reshape(like.shape)


def numbers_of(operation, strengths=EVERY, sign=1):
    """Rows of numbers, in the middle of those that stand for the operation, each strength and the sign."""
    place = (OPERATIONS.index(operation) + 0.5) / 14
    return torch.tensor([[place, (k + 0.5) / 31, 0.25 if sign < 0 else 0.75] for k in strengths])


def ours(picture, operation, sign=1):
    """The picture after the operation at each strength, in levels."""
    numbers = numbers_of(operation, sign=sign)
    batch = as_batch(picture).expand(len(numbers), -1, -1, -1)
    return [as_levels(image, picture) for image in TrivialAugment()(batch, numbers)]


def magnitude(operation, k):
    """torchvision's table of the wide ranges, at 31 bins."""
    ends = {
        **dict.fromkeys(("shear_x", "shear_y", *BLENDS), (0.0, 0.99)),
        **dict.fromkeys(("translate_x", "translate_y"), (0.0, 32.0)),
        "rotate": (0.0, 135.0),
        "solarize": (255.0, 0.0),
    }
    return float(np.linspace(*ends[operation], 31)[k])


def test_operations_and_ranges_are_torchvisions():
    try:
        transforms = importlib.import_module("torchvision.transforms")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision does not import here: {error}")
    space = transforms.TrivialAugmentWide()._augmentation_space(31)
    named = {"ShearX": "shear_x", "ShearY": "shear_y", "TranslateX": "translate_x", "TranslateY": "translate_y"}
    theirs = {named.get(name, name.lower().replace("color", "colour")): found for name, found in space.items()}
    assert tuple(theirs) == OPERATIONS
    for operation, (magnitudes, _) in theirs.items():
        if operation not in ("identity", "posterize", "autocontrast", "equalize"):
            expected = [magnitude(operation, k) for k in range(31)]
            np.testing.assert_allclose(magnitudes.numpy(), expected, rtol=1e-5, atol=1e-5, err_msg=operation)
    assert theirs["posterize"][0].tolist() == [8 - round(k / 5) for k in range(31)]
    assert {name for name, (_, signed) in theirs.items() if signed} == {*GEOMETRIC, *BLENDS}


def coefficients(operation, value, size):
    """Pillow's affine map, from the place in the result to the place in the picture."""
    w, h = size
    cos, sin = math.cos(math.radians(value)), math.sin(math.radians(value))
    return {
        "shear_x": (1, value, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, value, 1, 0),
        "translate_x": (1, 0, -int(value), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, -int(value)),
        "rotate": (cos, -sin, w / 2 - cos * w / 2 + sin * h / 2, sin, cos, h / 2 - sin * w / 2 - cos * h / 2),
    }[operation]


def sources(matrix, size):
    """Where the middle of each pixel comes from: columns and rows, each (h, w)."""
    y, x = np.mgrid[0 : size[1], 0 : size[0]] + 0.5
    a, b, c, d, e, f = matrix
    return a * x + b * y + c, d * x + e * y + f


def near_a_border(places, distance):
    return np.any([np.abs(place - np.round(place)) < distance for place in places], axis=0)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("operation", GEOMETRIC)
def test_moved_pixels_are_pillows(operation, name):
    picture, skipped, compared = PICTURES[name], 0, 0
    image = Image.fromarray(picture)
    for sign in (-1, 1):
        for k, found in zip(EVERY, ours(picture, operation, sign), strict=True):
            value = sign * magnitude(operation, k)
            matrix = coefficients(operation, value, image.size)
            # rotate() is not transform(): it has ways of its own for right angles.
            theirs = (
                image.rotate(value)
                if operation == "rotate"
                else image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)
            )
            unsure = near_a_border(sources(matrix, image.size), 1e-3)  # Pillow counts in 2⁻¹⁶ of a pixel
            np.testing.assert_allclose(found[~unsure], np.asarray(theirs)[~unsure], atol=1e-4)
            skipped, compared = skipped + unsure.sum(), compared + unsure.size
    # All of 40×27 comes from borders at a right angle, twice in 62, since one of its sides is odd and the other even.
    assert skipped < 0.05 * compared


@pytest.mark.parametrize("name", ["noise", "ramp"])
def test_a_border_between_pixels_is_decided_the_same_way_everywhere(name):
    picture, met = PICTURES[name], 0
    h, w = picture.shape[:2]
    padded = np.zeros((h + 2, w + 2, 3))  # black around it
    padded[1:-1, 1:-1] = picture
    for sign in (-1, 1):
        for k, found in zip(EVERY, ours(picture, "rotate", sign), strict=True):
            places = sources(coefficients("rotate", sign * magnitude("rotate", k), (w, h)), (w, h))
            column, row = (np.floor(place + 1e-4).astype(int) for place in places)
            expected = padded[np.clip(row + 1, 0, h + 1), np.clip(column + 1, 0, w + 1)]
            np.testing.assert_allclose(found, expected, atol=1e-4)
            met += near_a_border(places, 1e-9).sum()
    assert met >= 64, "the diagonals at 45° and 135° come from borders"


def by_definition(picture, operation, factor):
    """factor · picture + (1 − factor) · other in float64, cut to the levels there are."""
    x = picture.astype(np.float64)
    luma = x @ [0.2989, 0.587, 0.114] if x.ndim == 3 else x
    if operation == "brightness":
        other = np.zeros_like(x)
    elif operation == "colour":
        other = luma.reshape(*luma.shape, *[1] * (x.ndim - 2))
    elif operation == "contrast":
        other = luma.mean()
    else:
        kernel = np.ones((3, 3)) / 13
        kernel[1, 1] = 5 / 13
        other = x.copy()
        smooth = ndimage.correlate(x, kernel.reshape(3, 3, *[1] * (x.ndim - 2)))
        other[1:-1, 1:-1] = smooth[1:-1, 1:-1]
    return np.clip(factor * x + (1 - factor) * other, 0, 255)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("operation", BLENDS)
def test_blends_are_their_definition_and_pillows(operation, name):
    picture = PICTURES[name]
    pillows = {"colour": "Color"}.get(operation, operation.capitalize())
    enhancer = getattr(ImageEnhance, pillows)(Image.fromarray(picture))
    for sign in (-1, 1):
        for k, found in zip(EVERY, ours(picture, operation, sign), strict=True):
            factor = 1 + sign * magnitude(operation, k)
            np.testing.assert_allclose(found, by_definition(picture, operation, factor), atol=2e-4)
            theirs = np.asarray(enhancer.enhance(factor), dtype=np.float64)
            # Pillow cuts the result to a whole level, and rounds the other image before it: luma, mean or smooth.
            assert np.abs(found - theirs).max() < 1 + 0.5 * abs(1 - factor) + 0.1


@pytest.mark.parametrize("name", PICTURES)
def test_autocontrast_is_pillows_before_it_cuts_to_levels(name):
    for picture in (PICTURES[name], PICTURES[name] // 128 + 77, PICTURES[name] // 2, PICTURES[name] // 2 + 128):
        x = picture.astype(np.float64)
        low, high = x.min(axis=(0, 1)), x.max(axis=(0, 1))
        found = ours(picture, "autocontrast")
        expected = np.where(high > low, (x - low) / np.maximum(high - low, 1) * 255, x)
        np.testing.assert_allclose(found[0], expected, atol=6e-3)  # float32 and a stretch of up to 255 times
        theirs = np.asarray(ImageOps.autocontrast(Image.fromarray(picture)), dtype=np.float64)
        assert np.abs(found[0] - theirs).max() < 1.01
        assert all(np.array_equal(other, found[0]) for other in found), "it has no strength"


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("operation", TABLES)
def test_tables_are_pillows_to_the_level(operation, name):
    for picture in (PICTURES[name], np.tile(PICTURES[name], (3, 2, *[1] * (PICTURES[name].ndim - 2)))):
        image = Image.fromarray(picture)
        for k, found in zip(EVERY, ours(picture, operation), strict=True):
            if operation == "posterize":
                theirs = ImageOps.posterize(image, 8 - round(k / 5))
            elif operation == "solarize":
                theirs = ImageOps.solarize(image, magnitude("solarize", k))
            else:
                theirs = ImageOps.equalize(image)
            np.testing.assert_allclose(found, np.asarray(theirs), atol=1e-4)


def test_identity_and_what_has_no_sign():
    picture = PICTURES["ramp"]
    for found in ours(picture, "identity"):
        assert np.array_equal(found, ours(picture, "identity")[0])
        np.testing.assert_allclose(found, picture, atol=1e-4)
    for operation in set(OPERATIONS) - set(SIGNED):
        assert np.array_equal(ours(picture, operation, -1), ours(picture, operation, 1))


def test_an_equalized_histogram_is_flat():
    picture = torch.randn(4, 3, 64 * 64, generator=torch.Generator().manual_seed(0)) * 20 + 120
    levels = picture.round().clamp(0, 255).long()
    new = equalizing(levels).gather(2, levels).numpy()
    for channel in new.reshape(12, -1):
        assert stats.kstest(channel / 255, "uniform").statistic < 0.05


def test_operations_strengths_and_signs_are_equally_likely_and_independent():
    numbers = torch.rand(43_400, 3, generator=torch.Generator().manual_seed(0))
    drawn = [values.long() for values in Choices.of(numbers)]
    both = torch.zeros(14, 31, 2).index_put_((drawn[0], drawn[1], (drawn[2] + 1) // 2), torch.tensor(1.0), True).numpy()
    assert both.sum() == 43_400
    for axes in ((1, 2), (0, 2), (0, 1)):
        assert stats.chisquare(both.sum(axis=axes)).pvalue > ENOUGH
    assert stats.chisquare(both.ravel()).pvalue > ENOUGH
    ends = torch.tensor([0.0, 1 - 2**-24])  # the least and the largest that torch.rand can give
    first, last = zip(*[values.tolist() for values in Choices.of(ends.unsqueeze(1).expand(2, 3))], strict=True)
    assert (first, last) == ((0, 0, -1), (13, 30, 1))


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_a_share_of_the_views_is_touched(p):
    numbers = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(Choices.of(numbers, p).operation.long(), minlength=14).numpy()
    expected = np.full(14, p / 14)
    expected[OPERATIONS.index("identity")] += 1 - p
    if p == 0:
        assert (counts == 20_000 * expected).all()
    else:
        assert stats.chisquare(counts, 20_000 * expected).pvalue > ENOUGH
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (50, 3, 8, 8), generator=generator) / 255
    made, left = TrivialAugment(p)(images, numbers[:50]), numbers[:50, 0] >= p
    assert torch.equal(made[left], images[left])
    assert bool(left.all()) == (p == 0)


def test_a_view_follows_from_its_own_image_and_numbers():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (140, 3, 20, 24), generator=generator) / 255
    numbers, stage = torch.rand(140, 3, generator=generator), TrivialAugment()
    before = images.clone(), torch.get_rng_state()
    made = stage(images, numbers)
    assert torch.equal(images, before[0]), "what came is left as it was"
    assert torch.equal(torch.get_rng_state(), before[1])
    assert torch.equal(made, stage(images, numbers))
    order = torch.randperm(140, generator=generator)
    assert torch.equal(stage(images[order], numbers[order]), made[order])
    for i in range(0, 140, 9):
        assert torch.equal(stage(images[i : i + 1], numbers[i : i + 1])[0], made[i])


def test_grey_images_have_no_colour_to_change():
    picture = PICTURES["grey"]
    for sign in (-1, 1):
        for found in ours(picture, "colour", sign):
            np.testing.assert_allclose(found, picture, atol=1e-4)


@pytest.mark.parametrize("level", [0, 1, 128, 255])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_one_colour(channels, level):
    numbers = torch.cat([numbers_of(operation, sign=sign) for operation in OPERATIONS for sign in (-1, 1)])
    images = torch.full((len(numbers), channels, 9, 11), level / 255)
    # Resampling leaves noise far below a level, which is no contrast to be stretched.
    images += torch.linspace(-1e-6, 1e-6, 99).reshape(9, 11)
    made, drawn = TrivialAugment()(images, numbers), Choices.of(numbers)
    assert made.isfinite().all()
    assert made.min() >= 0
    assert made.max() <= 1
    for name in ("contrast", "colour", "sharpness", "autocontrast", "equalize"):
        # The weights of the luma add up to 0.9999: torchvision's, see sincere.views.colour.
        torch.testing.assert_close(made[drawn.are(name)], images[drawn.are(name)], atol=1.1e-4, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([1, 3]), st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_views_stay_within_the_colours_there_are(seed, channels, h, w, beyond):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(14, channels, h, w, generator=generator)
    numbers = torch.rand(14, 3, generator=generator)
    numbers[:, 0] = (torch.arange(14) + 0.5) / 14
    made = TrivialAugment()(images * 1.4 - 0.2 if beyond else images, numbers)
    assert made.shape == images.shape
    assert made.dtype == images.dtype
    assert made.min() >= 0
    assert made.max() <= 1
    if not beyond:
        assert torch.equal(made[0], images[0]), "the identity rounds nothing"


def test_the_stage_is_one_graph():
    stage, generator = TrivialAugment(), torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (56, 3, 16, 16), generator=generator) / 255
    numbers = torch.rand(56, 3, generator=generator)
    graph = torch.compile(stage.__call__, fullgraph=True, backend="eager")
    torch.testing.assert_close(graph(images, numbers), stage(images, numbers))
    torch._dynamo.reset()


class NoHost(TorchDispatchMode):
    """Refuses every operation that reads or makes a tensor in the host's memory."""

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        result = call(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            assert not isinstance(value, torch.Tensor) or value.device.type == "meta", f"{call} needs the host"
        return result


def test_nothing_waits_for_the_device():
    # A meta tensor has no values: whoever asks for one, or branches on it, fails, as a CUDA graph would.
    stage, images = TrivialAugment(), torch.empty(5, 3, 12, 10, device="meta")
    with NoHost():
        assert stage(images, torch.empty(5, 3, device="meta")).shape == images.shape


def test_the_preset():
    assert PRESETS["image"]["trivial"] == (ShiftedCrop(), Flip(0.5), TrivialAugment(), Hole())
    unscaled = Statistics((0.0,), (1.0,))
    without = build_views("trivial", kind="image", statistics=unscaled, trivial=False, hole={"pixels": 8})
    assert [stage.name for stage in without.stages] == ["shift", "flip", "hole"]
    # Shift and flip come first and give whole levels, so that a table finds what Pillow finds.
    picture = PICTURES["grey"]
    views = StagedViews((ShiftedCrop(4), Flip(1.0), TrivialAugment()), kind="image", statistics=unscaled)
    numbers = torch.cat([torch.full((1, 3), 0.5), numbers_of("equalize", [0])], dim=1).unsqueeze(0)
    made = views.render(torch.from_numpy(picture)[None, None], numbers)[0, 0]
    theirs = ImageOps.mirror(ImageOps.equalize(Image.fromarray(picture)))
    np.testing.assert_allclose(as_levels(made, picture), np.asarray(theirs), atol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: TrivialAugment().numbers((4, 8, 8)), InputError, ["one channel", "4 channels", "trivial=False"]),
        (
            lambda: build_views("trivial", kind="image", statistics=Statistics(), trivial={"m": 1}),
            OptionError,
            ["'trivial'", "the options 'p'", "False to leave it out", "{'m': 1}"],
        ),
        (lambda: TrivialAugment(1.5), OptionError, ["p must lie between 0 and 1", "1.5"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
