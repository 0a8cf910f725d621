"""Colours: single changes against Pillow, colorsys and scipy; random choices against their stated distributions."""

import colorsys
from itertools import permutations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy import ndimage, stats

from sincere.errors import InputError, OptionError
from sincere.views import Blur, ColourJitter, Greyscale
from sincere.views.colour import blend, grey, places_of, shift_hue

ENOUGH = 1e-3
PICTURE = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)


def as_batch(picture):
    return torch.from_numpy(picture).permute(2, 0, 1).unsqueeze(0).float() / 255


def as_levels(batch):
    return batch[0].permute(1, 2, 0).numpy() * 255


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def brightness(images, factor):
    return (factor * images).clamp(0, 1)


def contrast(images, factor):
    return (factor * images + (1 - factor) * grey(images).mean(dim=(1, 2, 3), keepdim=True)).clamp(0, 1)


def saturation(images, factor):
    return (factor * images + (1 - factor) * grey(images)).clamp(0, 1)


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
@pytest.mark.parametrize("name", ["Brightness", "Contrast", "Color"])
def test_a_blend_is_pillows(name, factor):
    f, zero = torch.tensor([factor]), torch.zeros(1)
    weights = {"Brightness": (f, zero, zero), "Contrast": (f, 1 - f, zero), "Color": (f, zero, 1 - f)}[name]
    ours = as_levels(blend(as_batch(PICTURE), *weights))
    theirs = np.asarray(getattr(ImageEnhance, name)(Image.fromarray(PICTURE)).enhance(factor), dtype=np.float32)
    assert np.abs(ours - theirs).max() <= 1.6  # Pillow cuts to whole levels, and rounds the mean that contrast uses


def test_grey_is_pillows():
    theirs = np.asarray(Image.fromarray(PICTURE).convert("L"), dtype=np.float32)
    assert np.abs(as_levels(grey(as_batch(PICTURE)))[..., 0] - theirs).max() <= 0.6


@pytest.mark.parametrize("turns", [-0.5, -0.1, 0.0, 0.07, 0.4])
def test_hue_is_that_of_colorsys(turns):
    picture = PICTURE.copy()
    picture[0] = picture[0, :, :1]  # grey: no hue at all
    picture[1] = np.array([255, 0, 0])
    picture[2] = np.array([0, 7, 7])  # two channels tie for the largest
    ours = shift_hue(as_batch(picture), torch.tensor([turns]))[0].permute(1, 2, 0).numpy()
    for row in range(6):
        for column in range(picture.shape[1]):
            h, s, v = colorsys.rgb_to_hsv(*(picture[row, column] / 255))
            expected = colorsys.hsv_to_rgb((h + turns) % 1, s, v)
            np.testing.assert_allclose(ours[row, column], expected, atol=2e-6)


def test_hue_is_near_pillows():
    hsv = np.array(Image.fromarray(PICTURE).convert("HSV"))
    hsv[..., 0] += np.uint8(26)
    bands = [Image.fromarray(np.ascontiguousarray(hsv[..., i])) for i in range(3)]
    theirs = np.asarray(Image.merge("HSV", bands).convert("RGB"), dtype=np.float32)
    ours = as_levels(shift_hue(as_batch(PICTURE), torch.tensor([26 / 256])))
    assert np.abs(ours - theirs).mean() <= 2.0  # Pillow's hues have 256 steps


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_jitter_applies_the_four_in_the_drawn_order(order):
    jitter = ColourJitter(0.8, 0.8, 0.8, 0.3, p=1.0)
    images, numbers = as_batch(PICTURE), torch.zeros(1, 9)
    numbers[0, :4] = torch.tensor([0.8, 0.9, 0.1, 0.7])
    for place, change in enumerate(order):
        numbers[0, 4 + change] = place / 4
    factors, turns = jitter.factors(numbers[:, :4], torch.tensor([True]))
    torch.testing.assert_close(factors, torch.tensor([[1.48, 1.64, 0.36]]))
    torch.testing.assert_close(turns, torch.tensor([0.12]))
    changes = (
        lambda x: brightness(x, 1.48),
        lambda x: contrast(x, 1.64),
        lambda x: saturation(x, 0.36),
        lambda x: shift_hue(x, turns),
    )
    expected = images
    for change in order:
        expected = changes[change](expected)
    torch.testing.assert_close(jitter(images, numbers), expected, atol=2e-6, rtol=0)


def test_orders_are_equally_likely():
    places = places_of(uniform(12_000, 4))
    assert (places.sort(dim=1).values == torch.arange(4)).all()
    counts = torch.bincount((places * torch.tensor([64, 16, 4, 1])).sum(dim=1)).numpy()
    assert len(counts[counts > 0]) == 24
    assert stats.chisquare(counts[counts > 0]).pvalue > ENOUGH
    assert places_of(torch.zeros(1, 4)).tolist() == [[0, 1, 2, 3]]  # even a tie is a permutation


def test_factors_are_uniform_and_never_negative():
    jitter = ColourJitter(0.4, 1.6, 0.0, 0.1)
    factors, turns = jitter.factors(uniform(5000, 4), torch.ones(5000, dtype=torch.bool))
    assert stats.kstest(factors[:, 0].numpy(), stats.uniform(0.6, 0.8).cdf).pvalue > ENOUGH
    assert stats.kstest(factors[:, 1].numpy(), stats.uniform(0.0, 2.6).cdf).pvalue > ENOUGH
    assert (factors[:, 2] == 1).all()
    assert stats.kstest(turns.numpy(), stats.uniform(-0.1, 0.2).cdf).pvalue > ENOUGH


def test_jitter_and_greyscale_happen_as_often_as_said():
    images = as_batch(PICTURE)[:, :, :4, :4].expand(3000, -1, -1, -1)
    for stage, probability in ((ColourJitter(p=0.8), 0.8), (Greyscale(0.2), 0.2)):
        result = stage(images, uniform(3000, stage.numbers((3, 4, 4))))
        changed = ((result - images).abs() > 1e-4).any(dim=3).any(dim=2).any(dim=1)
        assert stats.binomtest(int(changed.sum()), 3000, probability).pvalue > ENOUGH
    untouched = ColourJitter(p=0.0)(images, uniform(3000, 9))
    torch.testing.assert_close(untouched, images, atol=1e-6, rtol=0)


def test_grey_images_have_brightness_and_contrast_only():
    images = uniform(5, 1, 6, 6)
    numbers = uniform(5, 9, seed=1)
    torch.testing.assert_close(ColourJitter(0.0, 0.0, 0.9, 0.4, p=1.0)(images, numbers), images)
    changed = ColourJitter(0.4, 0.4, 0.4, 0.1, p=1.0)(images, numbers)
    assert (changed - images).abs().amax(dim=(1, 2, 3)).min() > 1e-3
    assert torch.equal(Greyscale(1.0)(images, numbers[:, :1]), images)


@pytest.mark.parametrize("deviation", [0.1, 0.7, 2.0])
def test_blur_is_scipys(deviation):
    blur = Blur((deviation, deviation), kernel=0.3, p=1.0)
    ours = blur(as_batch(PICTURE), torch.full((1, 2), 0.5))[0].numpy()
    expected = as_batch(PICTURE)[0].double().numpy()
    for axis, side in ((1, 24), (2, 20)):
        offsets = np.arange(-blur.reach(side), blur.reach(side) + 1)
        kernel = np.exp(-0.5 * (offsets / deviation) ** 2)
        expected = ndimage.correlate1d(expected, kernel / kernel.sum(), axis=axis, mode="mirror")
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    assert (blur.reach(24), blur.reach(20), blur.reach(2), blur.reach(1)) == (4, 3, 1, 0)


def test_blur_of_simclr_at_its_size_and_as_often_as_said():
    blur = Blur()
    assert 2 * blur.reach(224) + 1 == 23
    images = uniform(800, 1, 6, 6)
    changed = (blur(images, uniform(800, 2, seed=3)) - images).abs().amax(dim=(1, 2, 3)) > 0
    # A deviation under 0.13 pixels leaves float32 as it was now and then, so a little below one half is right too.
    assert 0.45 < float(changed.float().mean()) < 0.55


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ColourJitter(hue=0.6), OptionError, ["hue", "at most 0.5", "0.6"]),
        (lambda: ColourJitter(brightness=-1), OptionError, ["brightness", "at least 0", "-1"]),
        (lambda: Greyscale(p=-0.1), OptionError, ["p ", "-0.1"]),
        (lambda: Blur(deviation=(2.0, 0.1)), OptionError, ["low ≤ high"]),
        (lambda: ColourJitter().numbers((4, 8, 8)), InputError, ["one channel", "4 channels", "jitter=False"]),
        (lambda: Greyscale().numbers((2, 8, 8)), InputError, ["2 channels", "greyscale=False"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
