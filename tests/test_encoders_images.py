"""Image encoders: known parameter counts, shapes, layouts, and what torch.compile makes of them."""

import importlib

import pytest
import torch
from torch import nn

from sincere.encoders import ResNet, ShortResNet, SmallCNN, build_encoder
from sincere.errors import InputError, OptionError

# Published parameter counts of the networks with a classifier of 1,000 classes, minus that classifier.
PUBLISHED = {18: (11_689_512, 512), 34: (21_797_672, 512), 50: (25_557_032, 2048)}


def parameters(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("depth", PUBLISHED)
def test_parameter_counts_are_the_published_ones(depth):
    total, features = PUBLISHED[depth]
    with torch.device("meta"):
        large = build_encoder(f"resnet{depth}", kind="image", shape=(3, 224, 224))
        small = build_encoder(f"resnet{depth}", kind="image", shape=(3, 32, 32))
    assert large.feature_dim == features
    assert parameters(large) == total - (features + 1) * 1000
    assert parameters(large) - parameters(small) == 64 * 3 * (7 * 7 - 3 * 3)
    assert all(p.is_meta for p in large.parameters())


def test_resnet9_is_what_its_name_says():
    """Eight convolutions; the ninth layer is the classifier, which an encoder has not."""
    with torch.device("meta"):
        encoder = ShortResNet((3, 32, 32))
    convolutions = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv2d)]
    expected = 9 * (3 * 64 + 64 * 128 + 2 * 128**2 + 128 * 256 + 256 * 512 + 2 * 512**2)
    assert len(convolutions) == 8
    assert sum(m.weight.numel() for m in convolutions) == expected
    with torch.device("meta"):
        longer = ShortResNet((3, 32, 32), residuals="all")
    assert parameters(longer) - parameters(encoder) == 2 * (9 * 256**2 + 2 * 256)


def test_stems():
    with torch.device("meta"):
        images = torch.empty(1, 3, 64, 64)
        for stem, side in (("small", 64), ("large", 16), ("auto", 64)):
            assert ResNet(18, (3, 64, 64), stem=stem).stem(images).shape[2:] == (side, side)
        assert ResNet(18, (3, 96, 128)).stem(images).shape[2:] == (16, 16)


def test_width():
    with torch.device("meta"):
        narrow, full = (ResNet(18, (3, 32, 32), width=width) for width in (0.125, 1.0))
    assert (narrow.feature_dim, full.feature_dim) == (64, 512)
    assert parameters(narrow) < parameters(full) / 50
    assert ResNet(50, (1, 8, 8), width=0.125).feature_dim == 256


def tiny_encoders():
    torch.manual_seed(0)
    return [
        ResNet(18, (3, 12, 12), width=0.125),
        ResNet(50, (3, 12, 12), width=0.0625),
        ResNet(34, (3, 12, 12), width=0.125, stem="large"),
        SmallCNN((3, 12, 12), width=4),
        ShortResNet((3, 12, 12), width=0.0625),
        ShortResNet((3, 12, 12), width=0.0625, residuals="all"),
    ]


@pytest.mark.parametrize("encoder", tiny_encoders(), ids=lambda encoder: type(encoder).__name__)
def test_every_image_encoder(encoder):
    images = torch.randn(5, 3, 12, 12)
    features = encoder(images)
    assert features.shape == (5, encoder.feature_dim)
    features.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    encoder.eval()
    with torch.no_grad():
        expected = encoder(images)
        torch.testing.assert_close(encoder(images[:1]), expected[:1], atol=1e-4, rtol=1e-4)
        last = encoder.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(last, expected, atol=1e-4, rtol=1e-4)
        assert encoder(torch.randn(2, 3, 9, 17)).shape == (2, encoder.feature_dim)


def test_one_graph():
    encoder = ResNet(18, (3, 8, 8), width=0.125)
    images = torch.randn(3, 3, 8, 8)
    whole = torch.compile(encoder.eval(), fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(images), encoder(images))


def test_blocks_that_start_as_the_identity():
    torch.manual_seed(0)
    encoder = ResNet(18, (3, 8, 8), width=0.125, zero_last=True).eval()
    grid = torch.rand(2, 8, 8, 8)  # not negative, so that the last ReLU of a block leaves it alone
    assert torch.equal(encoder.blocks[0](grid), grid)
    assert not torch.equal(ResNet(18, (3, 8, 8), width=0.125).eval().blocks[0](grid), grid)


def test_weights_start_as_he_et_al_propose():
    torch.manual_seed(0)
    for module in ResNet(18, (3, 32, 32), width=0.5).modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 10_000:
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)


@pytest.mark.parametrize("depth", [18, 50])
def test_features_are_torchvisions(depth):
    try:
        models = importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision does not import here: {error}")
    theirs = models.get_model(f"resnet{depth}").eval()
    theirs.fc = nn.Identity()
    ours = ResNet(depth, (3, 96, 96)).eval()
    values = [value for name, value in theirs.state_dict().items() if not name.startswith("fc.")]
    ours.load_state_dict(dict(zip(ours.state_dict(), values, strict=True)))
    images = torch.randn(2, 3, 96, 96)
    torch.testing.assert_close(ours(images), theirs(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("side", [1, 2, 3, 8, 28])
def test_small_cnn_takes_any_size(side):
    encoder = SmallCNN((1, side, side), width=4)
    assert encoder(torch.randn(3, 1, side, side)).shape == (3, 16)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ResNet(20, (3, 32, 32)), OptionError, ["18, 34, 50", "20"]),
        (lambda: ResNet(18, (32, 32)), OptionError, ["(channels, height, width)", "(32, 32)", "without the batch"]),
        (lambda: ResNet(18, (3, 32, 32), stem="tiny"), OptionError, ["stem", "'small'", "'tiny'"]),
        (lambda: ResNet(18, (3, 32, 32), width=0.001), OptionError, ["width", "0.001"]),
        (lambda: SmallCNN((3, 32, 32), width=0), OptionError, ["width", "at least 1"]),
        (
            lambda: SmallCNN((3, 8, 8))(torch.randn(2, 2, 3, 8, 8)),
            InputError,
            ["(b, 3, h, w)", "(2, 2, 3, 8, 8)", "flatten(0, 1)"],
        ),
        (lambda: SmallCNN((3, 8, 8))(torch.randn(2, 1, 8, 8)), InputError, ["(b, 3, h, w)", "(2, 1, 8, 8)"]),
        (lambda: SmallCNN((3, 8, 8))(torch.zeros(2, 3, 8, 8).byte()), InputError, ["floating-point", "uint8"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
