"""Encoders on what nobody means to give them: the right features, or words."""

import copy

import numpy as np
import pytest
import torch

from sincere.checks import check_flag
from sincere.encoders import ShortCNN, build_encoder, default_encoder
from sincere.encoders.shapes import check_multiple, check_size
from sincere.encoders.short_cnn import FLOOR, whitening
from sincere.errors import InputError, OptionError

IMAGES = {
    "resnet9": {"width": 0.125},
    "resnet18": {"width": 0.125},
    "resnet50": {"width": 0.125},
    "wide_resnet": {"depth": 10, "width": 1},
    "short_cnn": {"channels": (8, 16, 16)},
    "small_cnn": {"width": 4},
}
OTHERS = {"mlp": ("array", (5,), {"width": 16}), "text": ("text", (6, 3), {"width": 16, "dim": 8, "rows": 99})}
OTHERS["sound"] = ("sound", (800,), {"width": 4, "sample_rate": 8000})


def images_of(b=3, channels=3, h=17, w=12, seed=0):
    return torch.randn(b, channels, h, w, generator=torch.Generator().manual_seed(seed))


def image_encoder(name, channels=3, h=17, w=12):
    generator = torch.Generator().manual_seed(1)
    return build_encoder(name, kind="image", shape=(channels, h, w), generator=generator, **IMAGES[name])


def other_encoder(name):
    kind, shape, options = OTHERS[name]
    return build_encoder(name, kind=kind, shape=shape, generator=torch.Generator().manual_seed(1), **options)


def inputs_of(name, b=3):
    generator = torch.Generator().manual_seed(0)
    shape = (b, *OTHERS[name][1])
    return (
        torch.randint(0, 99, shape, generator=generator) if name == "text" else torch.randn(shape, generator=generator)
    )


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("name", IMAGES)
def test_features_are_those_of_double_precision_in_any_layout(name, channels):
    encoder, images = image_encoder(name, channels).eval(), images_of(channels=channels)
    double = copy.deepcopy(encoder).double()(images.double())
    assert double.dtype == torch.float64
    last = copy.deepcopy(encoder).to(memory_format=torch.channels_last)
    strided = images.transpose(2, 3).contiguous().transpose(2, 3)
    for found in (encoder(images), last(images.contiguous(memory_format=torch.channels_last)), encoder(strided)):
        torch.testing.assert_close(found.double(), double, rtol=1e-4, atol=1e-4)
    assert encoder(images[:0]).shape == (0, encoder.feature_dim)


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_encoders_in_double_precision(name):
    encoder, inputs = other_encoder(name).eval(), inputs_of(name)
    wide = inputs if name == "text" else inputs.double()
    double = copy.deepcopy(encoder).double()(wide)
    assert double.dtype == torch.float64
    torch.testing.assert_close(encoder(inputs).double(), double, rtol=1e-4, atol=1e-5)
    assert encoder(inputs[:0]).shape == (0, encoder.feature_dim)


def test_a_sound_encoder_in_bfloat16():
    encoder, waveforms = other_encoder("sound").eval(), inputs_of("sound")
    found = copy.deepcopy(encoder).bfloat16()(waveforms.bfloat16())
    assert found.dtype == torch.bfloat16
    # Eight bits, through four layers: enough to be the same features, and a spectrogram of noise is not.
    cosine = torch.nn.functional.cosine_similarity(found.float(), encoder(waveforms))
    assert (cosine > 0.99).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_numbers_of_pieces_may_be_short(dtype):
    encoder = other_encoder("text").eval()
    texts = inputs_of("text")
    assert torch.equal(encoder(texts.to(dtype)), encoder(texts))


@pytest.mark.parametrize(("name", "least"), [("resnet9", 8), ("short_cnn", 9)])
def test_images_too_small_to_halve_are_refused_in_words(name, least):
    encoder = image_encoder(name).eval()
    assert encoder(images_of(h=least, w=least)).isfinite().all()
    with pytest.raises(InputError, match=rf"h and w at least {least}: got \(3, 3, {least - 1}, 40\)"):
        encoder(images_of(h=least - 1, w=40))


@pytest.mark.parametrize(("name", "shape"), [("text", (2, 0, 3)), ("sound", (2, 0))])
def test_samples_with_nothing_in_them_are_refused(name, shape):
    empty = torch.zeros(shape, dtype=torch.int64 if name == "text" else torch.float32)
    with pytest.raises(InputError, match="at least 1: got"):
        other_encoder(name)(empty)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.randint(0, 256, (9, 3, 9, 9), dtype=torch.uint8), r"floating-point: got \(9, 3, 9, 9\), torch.uint8"),
        (torch.full((4, 3, 9, 9), torch.nan), "must be finite: 4 of 4 rows"),
        (torch.zeros(0, 3, 9, 9), "computed from training images: got none"),
        (torch.zeros(4, 1, 9, 9), r"\(b, 3, h, w\), floating-point: got \(4, 1, 9, 9\)"),
        (torch.zeros(4, 3, 1, 9), r"h and w at least 2: got \(4, 3, 1, 9\)"),
        (1e200 * torch.randn(50, 3, 9, 9, dtype=torch.float64), "the covariance of the images .* must be finite"),
    ],
)
def test_a_first_layer_is_computed_from_images_or_not_at_all(images, message):
    encoder = ShortCNN((3, 9, 9), channels=(4, 4, 4))
    before = encoder.stem.weight.clone()
    with pytest.raises(InputError, match=message):
        encoder.start_from(images)
    assert torch.equal(encoder.stem.weight, before)


@pytest.mark.parametrize("level", [0.0, 1.0, -3.5, 1e4, 1e20])
def test_a_first_layer_of_images_of_one_colour(level):
    """Nothing varies, so that every direction has the floor's variance and any basis will do."""
    filters = whitening(torch.full((5, 2, 6, 7), level))
    assert filters.shape == (16, 2, 2, 2)
    assert torch.equal(filters[8:], -filters[:8])
    basis = filters[:8].flatten(1).double().numpy() * FLOOR**0.5
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-5)


def test_a_first_layer_of_one_image_is_numpys():
    image = images_of(b=1, channels=2, h=9, w=8)
    patches = [image[0, :, i : i + 2, j : j + 2].flatten().double().numpy() for i in range(8) for j in range(7)]
    covariance = np.cov(np.array(patches).T)
    found = whitening(image)[:8].flatten(1).double().numpy()
    # W C Wᵀ is λ/(λ + floor) on the diagonal, falling, whatever the signs of the directions.
    values = np.linalg.eigvalsh(covariance)[::-1]
    np.testing.assert_allclose(found @ covariance @ found.T, np.diag(values / (values + FLOOR)), atol=1e-5)


def test_a_first_layer_is_the_same_of_images_far_from_zero():
    images = images_of(b=20).double()
    plain, far = (whitening(some).flatten(1)[:12] for some in (images, images + 2.0**24))
    torch.testing.assert_close((plain @ far.T).abs(), plain @ plain.T, rtol=0, atol=1e-5)  # a direction's sign is free


@pytest.mark.parametrize("shape", [3, "3", None, (0,), (-2,), (2.5,), (3, 4), ()])
def test_a_shape_is_a_tuple_of_sizes(shape):
    with pytest.raises(OptionError, match=r"mlp takes samples of shape \(features\): got shape="):
        build_encoder("mlp", kind="array", shape=shape)


def test_a_shape_may_be_a_list():
    assert build_encoder("mlp", kind="array", shape=[5], width=4)(torch.zeros(2, 5)).shape == (2, 4)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_size, (1, 10**8), (0, 10**8 + 1, True, 2.0, "2", None)),
        (lambda name, value: check_size(name, value, 0, 9), (0, 9), (-1, 10)),
        (lambda name, value: check_multiple(name, value, 64), (1 / 64, 2, 1000), (0, 0.001, 1000.1, True, "2", np.nan)),
        (check_flag, (True, False), (1, 0, "no", None)),
    ],
    ids=["whole", "whole within bounds", "multiple", "switch"],
)
def test_options_are_good_up_to_their_bounds_and_no_further(check, good, bad):
    for value in good:
        check("width", value)
    for value in bad:
        with pytest.raises(OptionError, match=r"^width must .*: got "):
            check("width", value)


@pytest.mark.parametrize("shape", [(8, 8), (3,), (1, 3, 8, 8)])
def test_the_default_encoder_of_images_wants_their_shape(shape):
    with pytest.raises(OptionError, match=r"samples of shape \(channels, height, width\)"):
        default_encoder("image", shape)
