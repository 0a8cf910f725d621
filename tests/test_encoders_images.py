"""Image encoders: known parameter counts, shapes, layouts, and what torch.compile makes of them."""

import importlib

import numpy as np
import pytest
import torch
from torch import nn

from sincere.encoders import ResNet, ShortResNet, SmallCNN, WideResNet, build_encoder
from sincere.encoders.resnet import Pointwise, by_product, convolution
from sincere.encoders.short_cnn import ShortCNN
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


@pytest.mark.parametrize(("depth", "width", "total"), [(28, 10, 36_479_194), (16, 8, 10_961_370), (40, 4, 8_949_210)])
def test_wide_resnets_have_the_published_number_of_parameters(depth, width, total):
    """With the classifier of 10 classes that an encoder has not."""
    with torch.device("meta"):
        encoder = build_encoder("wide_resnet", kind="image", shape=(3, 32, 32), depth=depth, width=width)
    assert encoder.feature_dim == 64 * width
    assert parameters(encoder) == total - (encoder.feature_dim + 1) * 10


def test_a_wide_resnet_is_the_papers():
    """Written out once more from Table 1: normalise, ReLU, convolve, twice; a shortcut only where the size changes."""
    torch.manual_seed(0)
    encoder = WideResNet((3, 8, 8), depth=16, width=0.5).double().eval()
    state = encoder.state_dict()
    for name, value in state.items():
        if "running_var" in name or (name.endswith("weight") and value.ndim == 1):
            value.uniform_(0.5, 2)
        elif "running_mean" in name or name.endswith("bias"):
            value.normal_()

    def rectified(grid, name):
        mean, variance = (state[f"{name}.running_{which}"].view(1, -1, 1, 1) for which in ("mean", "var"))
        gain, bias = (state[f"{name}.{which}"].view(1, -1, 1, 1) for which in ("weight", "bias"))
        return ((grid - mean) / (variance + 1e-5).sqrt() * gain + bias).clamp(min=0)

    def convolved(grid, name, stride=1):
        weight = state[f"{name}.weight"]
        return nn.functional.conv2d(grid, weight, stride=stride, padding=weight.shape[-1] // 2)

    images = torch.randn(3, 3, 8, 8, dtype=torch.float64)
    grid = convolved(images, "stem")
    for number in range(6):
        block, stride = f"blocks.{number}", 2 if number in (2, 4) else 1
        ready = rectified(grid, f"{block}.before.0")
        path = convolved(ready, f"{block}.path.0", stride)
        path = convolved(rectified(path, f"{block}.path.1"), f"{block}.path.3")
        grid = path + (grid if number % 2 else convolved(ready, f"{block}.shortcut", stride))
    torch.testing.assert_close(encoder(images), rectified(grid, "last.0").mean(dim=(2, 3)))


@pytest.mark.parametrize("depth", [9, 27, 4, "28", True, 28.0])
def test_the_depth_of_a_wide_resnet(depth):
    with pytest.raises(OptionError, match="4 and a multiple of 6"):
        WideResNet((3, 32, 32), depth=depth)


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
        WideResNet((3, 12, 12), depth=10, width=0.5),
        ShortCNN((3, 12, 12), channels=(6, 8, 10)),
        ShortCNN((3, 12, 12), channels=(30, 8, 10), depth=2, activation="relu"),
    ]


@pytest.mark.parametrize("encoder", tiny_encoders(), ids=lambda encoder: type(encoder).__name__)
def test_every_image_encoder(encoder):
    images = torch.randn(5, 3, 12, 12)
    features = encoder(images)
    assert features.shape == (5, encoder.feature_dim)
    features.square().mean().backward()
    frozen = {"stem.weight"} if isinstance(encoder, ShortCNN) else set()
    assert {name for name, p in encoder.named_parameters() if p.grad is None} == frozen
    assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.requires_grad)
    encoder.eval()
    with torch.no_grad():
        expected = encoder(images)
        torch.testing.assert_close(encoder(images[:1]), expected[:1], atol=1e-4, rtol=1e-4)
        last = encoder.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(last, expected, atol=1e-4, rtol=1e-4)
        assert encoder(torch.randn(2, 3, 9, 17)).shape == (2, encoder.feature_dim)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_pointwise_convolution_is_a_product(stride):
    """What a GPU's compiler is given in its place, here called by hand: values and gradients."""
    layer = convolution(6, 5, 1, stride).double()
    assert isinstance(layer, Pointwise)
    grid = torch.randn(3, 6, 7, 8, dtype=torch.float64, requires_grad=True)
    ways = layer(grid), by_product(grid, layer.weight, layer.stride)
    torch.testing.assert_close(*ways)
    weights = torch.randn_like(ways[0])
    gradients = [torch.autograd.grad((weights * made).sum(), [grid, layer.weight]) for made in ways]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


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


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("shape", [(1, 9, 9), (1, 28, 28), (3, 9, 31), (2, 17, 10)])
def test_short_cnn_takes_odd_sizes(shape, depth):
    encoder = ShortCNN(shape, channels=(4, 6, 5), depth=depth)
    assert encoder.stem(torch.randn(1, *shape)).shape == (1, 8 * shape[0], shape[1] - 1, shape[2] - 1)
    assert encoder(torch.randn(3, *shape)).shape == (3, 5) == (3, encoder.feature_dim)


def test_short_cnn_is_few_wide_convolutions():
    with torch.device("meta"):
        encoders = [build_encoder("short_cnn", kind="image", shape=(3, 32, 32), depth=depth) for depth in (2, 3)]
    for encoder, depth in zip(encoders, (2, 3), strict=True):
        convolutions = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
        sizes = [(24, 128), *[(128, 128)] * (depth - 1), (128, 384), *[(384, 384)] * (depth - 1)]
        sizes += [(384, 512), *[(512, 512)] * (depth - 1)]
        assert [(m.in_channels, m.out_channels) for m in convolutions] == [(3, 24), *sizes]
        assert encoder.feature_dim == 512
        expected = 24 * 3 * 4 + sum(9 * a * b + 2 * b for a, b in sizes)
        assert parameters(encoder) == expected


def photographs(n=60, channels=3, side=11):
    """Pixels that go with their neighbours, colours that go with one another, and a mean that is not 0."""
    generator = np.random.default_rng(0)
    pixels = generator.normal(size=(n, channels, side, side)).cumsum(axis=2).cumsum(axis=3)
    return torch.from_numpy(0.2 * pixels + pixels[:, :1] + 0.3).float()


def patches_of(images):
    """Every patch of 2×2 pixels, all channels of it, as a row of float64: (patches, channels · 4)."""
    pixels = images.numpy().astype(np.float64)
    n, _, h, w = pixels.shape
    rows = [pixels[i, :, y : y + 2, x : x + 2].ravel() for i in range(n) for y in range(h - 1) for x in range(w - 1)]
    return np.stack(rows)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_first_layer_makes_patches_uncorrelated(channels):
    encoder, images = ShortCNN((channels, 11, 11), channels=(4, 4, 4)), photographs(channels=channels)
    random = encoder.stem.weight.clone()
    encoder.start_from(images)
    assert not encoder.stem.weight.requires_grad
    assert not torch.equal(encoder.stem.weight, random)
    filters = encoder.stem.weight.numpy().astype(np.float64).reshape(-1, 4 * channels)
    half = 4 * channels
    assert filters.shape == (2 * half, half)
    np.testing.assert_array_equal(filters[half:], -filters[:half])
    patches = patches_of(images)
    variances, directions = np.linalg.eigh(np.cov(patches.T))
    assert np.cov(patches.T).max() > 100 * variances.min(), "there is something to undo"
    # A direction's variance v becomes v / (v + 0.0005), next to one unless the direction hardly varies.
    expected = (variances / (variances + 5e-4))[::-1]
    np.testing.assert_allclose(np.cov((patches @ filters[:half].T).T), np.diag(expected), atol=2e-5)
    assert expected.max() > 0.999
    for direction, row, variance in zip(directions.T[::-1], filters, variances[::-1], strict=False):
        assert abs(direction @ row) == pytest.approx((variance + 5e-4) ** -0.5, rel=1e-3)
    # And this is what the layer does to images.
    with torch.no_grad():
        found = encoder.stem(images).permute(0, 2, 3, 1).flatten(0, 2).double().numpy()
    np.testing.assert_allclose(found, patches @ filters.T, atol=1e-3)


def test_directions_that_do_not_vary_are_not_blown_up():
    """A colour that is the same everywhere: 1 / √0.0005 at most, and nothing infinite."""
    images = photographs()
    images[:, 2] = 0.25
    encoder = ShortCNN((3, 11, 11), channels=(4, 4, 4))
    encoder.start_from(images)
    lengths = np.linalg.norm(encoder.stem.weight.flatten(1).numpy(), axis=1)
    assert lengths.max() == pytest.approx(5e-4**-0.5, rel=1e-3)
    assert (lengths > 0.99 * 5e-4**-0.5).sum() == 2 * 4, "the four pixels of that colour, and their negatives"
    features = encoder(images)
    assert features.isfinite().all()


@pytest.mark.parametrize("channels", [(6, 8, 10), (40, 8, 8)])
def test_short_cnns_convolutions_start_as_the_identity(channels):
    torch.manual_seed(0)
    convolutions = [m for m in ShortCNN((3, 12, 12), channels=channels).stages.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 9
    for one in convolutions:
        assert (one.kernel_size, one.bias) == ((3, 3), None)
        passed = min(one.in_channels, one.out_channels)
        grid = torch.randn(2, one.in_channels, 5, 6)
        with torch.no_grad():
            found = one(grid)
        torch.testing.assert_close(found[:, :passed], grid[:, :passed])
        assert (found[:, passed:].abs().amax(dim=(0, 2, 3)) > 0).all(), "the others start at random"


def test_three_convolutions_have_a_way_around_the_last_two():
    torch.manual_seed(0)
    two, three = (ShortCNN((3, 12, 12), channels=(6, 8, 10), depth=depth).eval().stages[0] for depth in (2, 3))
    grid = torch.randn(2, 24, 6, 6)
    for stage in (two, three):
        nn.init.zeros_(stage.norms[-1].weight)
    first = nn.functional.gelu(three.norms[0](nn.functional.max_pool2d(three.convolutions[0](grid), 2)))
    torch.testing.assert_close(three(grid), nn.functional.gelu(first))
    assert not two(grid).any(), "nothing goes around the only one"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ResNet(20, (3, 32, 32)), OptionError, ["18, 34, 50", "20"]),
        (lambda: ResNet(18, (32, 32)), OptionError, ["(channels, height, width)", "(32, 32)", "without the batch"]),
        (lambda: ResNet(18, (3, 32, 32), stem="tiny"), OptionError, ["stem", "'small'", "'tiny'"]),
        (lambda: ResNet(18, (3, 32, 32), width=0.001), OptionError, ["width", "0.001"]),
        (lambda: ShortCNN((3, 32, 32), depth=4), OptionError, ["depth", "2 or 3", "4"]),
        (lambda: ShortCNN((3, 32, 32), depth=True), OptionError, ["depth", "2 or 3", "True"]),
        (lambda: ShortCNN((3, 32, 32), channels=(64, 64)), OptionError, ["channels", "three", "(64, 64)"]),
        (lambda: ShortCNN((3, 32, 32), channels=64), OptionError, ["channels", "three", "64"]),
        (lambda: ShortCNN((3, 32, 32), channels=(64, 0, 64)), OptionError, ["channels[1]", "at least 1", "0"]),
        (lambda: ShortCNN((3, 32, 32), channels=(64, 64, 0.5)), OptionError, ["channels[2]", "whole", "0.5"]),
        (lambda: ShortCNN((3, 32, 32), activation="tanh"), OptionError, ["activation", "'gelu', 'relu'", "'tanh'"]),
        (lambda: ShortCNN((3, 8, 32)), OptionError, ["three times", "9 pixels or more", "(8, 32)"]),
        (lambda: ShortCNN((32, 32)), OptionError, ["(channels, height, width)", "(32, 32)"]),
        (lambda: ShortCNN((3, 9, 9))(torch.randn(2, 1, 9, 9)), InputError, ["(b, 3, h, w)", "(2, 1, 9, 9)"]),
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
