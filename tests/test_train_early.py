"""Smaller views in the first epochs of a run."""

import signal
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from sincere.data import LabelledData, Splits
from sincere.errors import OptionError
from sincere.runs import RunFolder
from sincere.train import BatchesConfig, ComputeConfig, EncoderConfig, MemoryConfig, ViewsConfig, train
from sincere.train.early import Early
from small_runs import small_config, small_splits

SEEN: list[tuple[int, ...]] = []  # shapes that `Watching` was given in training


class Watching(nn.Module):
    """An encoder that notes the sizes of its images: `test_train_early:Watching`."""

    feature_dim = 8

    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Conv2d(shape[0], 8, 3)

    def forward(self, images):
        if self.training:
            SEEN.append(tuple(images.shape))
        return self.layer(images).amax(dim=(2, 3))


class Flat(nn.Module):
    """An encoder for one size of image alone: `test_train_early:Flat`."""

    feature_dim = 8

    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], 8)

    def forward(self, images):
        return self.layer(images.flatten(1))


def images(height: int = 16, width: int = 16, samples: int = 24) -> Splits:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (samples, 3, height, width), dtype=torch.uint8, generator=generator)
    data = LabelledData(inputs, torch.arange(samples) % 3, ("ant", "bee", "cat"), "image", "noise")
    return Splits(data, data, data)


def config(views: ViewsConfig, **changes):
    return small_config(encoder=EncoderConfig(f"{__name__}:Watching"), views=views, epochs=4, **changes)


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


@pytest.mark.parametrize(("size", "to"), [((16, 16), (9, 9)), ((32, 32), (24, 24)), ((12, 20), (7, 12))])
def test_views_are_shrunk_as_torch_resizes_them(size, to):
    views = torch.randn(3, 2, 5, *size, generator=torch.Generator().manual_seed(1))
    resized = F.interpolate(views.flatten(0, 1), to, mode="bilinear", antialias=True)
    torch.testing.assert_close(Early(1, to).shrunk(views).flatten(0, 1), resized, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"compute": ComputeConfig(device="cpu", chunk_size=5)},
        {"memory": MemoryConfig(momentum=0.9)},
    ],
)
def test_the_first_share_of_the_epochs_is_small(changes, tmp_path):
    train(
        config(ViewsConfig("sincere", 2, early_size=8, early_share=0.25), **changes),
        run=tmp_path,
        data=images(),
        show="off",
    )
    sizes = [shape[2:] for shape in SEEN]
    small = sizes.count((8, 8))
    assert sizes == [(8, 8)] * small + [(16, 16)] * (3 * small)
    assert small > 0


def test_sides_keep_their_proportion(tmp_path):
    train(config(ViewsConfig("plain", 2, {"hole": False}, early_size=8)), run=tmp_path, data=images(12, 18))
    assert [shape[2:] for shape in SEEN] == [(8, 12)] * (len(SEEN) // 2) + [(12, 18)] * (len(SEEN) // 2)


@pytest.mark.parametrize(("share", "small"), [(0.0, 0), (1.0, 8), (0.5, 4), (0.4, 4), (0.3, 2)])
def test_a_share_is_rounded_to_whole_epochs(share, small, tmp_path):
    views = ViewsConfig("none", 2, early_size=8, early_share=share)
    train(config(views, batches=BatchesConfig(12, "shuffled")), run=tmp_path, data=images(), show="off")
    assert [shape[2:] for shape in SEEN].count((8, 8)) == small
    assert len(SEEN) == 8


class Stopping(Watching):
    """Sends a signal in its fourth and its seventh training step: `test_train_early:Stopping`."""

    def forward(self, images):
        if self.training and len(SEEN) in (3, 6):
            signal.raise_signal(signal.SIGTERM)
        return super().forward(images)


def test_a_run_that_is_stopped_goes_on_at_its_size(tmp_path):
    """Once among the small ones and once among the large ones: views and weights are those of a run in one go."""
    views, batches = ViewsConfig("sincere", 2, early_size=8), BatchesConfig(12, "shuffled")
    train(config(views, batches=batches), run=tmp_path / "whole", data=images(), show="off")
    whole = list(SEEN)
    SEEN.clear()
    settings = replace(config(views, batches=batches), encoder=EncoderConfig(f"{__name__}:Stopping"))
    ends = [train(settings, run=tmp_path / "parts", data=images(), resume=True, show="off").step for _ in range(3)]
    assert ends == [4, 7, 8]
    assert whole == SEEN
    weights = [load_file(RunFolder(tmp_path / name).weights) for name in ("whole", "parts")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("size", [16, 40])
def test_a_size_that_shrinks_nothing_is_noted(size, tmp_path, capsys):
    views = ViewsConfig("plain", 2, {"hole": False}, early_size=size)
    train(config(views), run=tmp_path, data=images(16, 18), show="plain")
    assert f"note: views.early_size={size} shrinks nothing: views are 16×18 pixels." in capsys.readouterr().err
    assert {shape[2:] for shape in SEEN} == {(16, 18)}


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_share_of_less_than_an_epoch_is_noted(share, tmp_path, capsys):
    train(config(ViewsConfig("none", 2, early_size=8, early_share=share)), run=tmp_path, data=images(), show="plain")
    assert f"note: views.early_share={share:g} of the epochs is less than one" in capsys.readouterr().err
    assert {shape[2:] for shape in SEEN} == {(16, 16)}


@pytest.mark.parametrize(("size", "message"), [(2, r"cannot take images of 2×2 pixels .*Choose a larger size")])
def test_a_size_that_does_not_fit_is_refused_before_there_is_a_run(size, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        train(config(ViewsConfig("plain", 2, {"hole": False}, early_size=size)), run=tmp_path / "run", data=images())
    assert not (tmp_path / "run").exists()


def test_an_encoder_for_one_size_is_refused(tmp_path):
    settings = replace(config(ViewsConfig("sincere", 2, early_size=8)), encoder=EncoderConfig(f"{__name__}:Flat"))
    with pytest.raises(OptionError, match=r"cannot take images of 8×8 pixels .*takes images of any size"):
        train(settings, run=tmp_path, data=images(), show="off")


def test_only_images_have_a_size(tmp_path):
    with pytest.raises(OptionError, match="shrinks views of images: blobs holds array data"):
        train(small_config(views=ViewsConfig(early_size=8)), run=tmp_path, data=small_splits())


def test_the_settings_are_checked():
    with pytest.raises(OptionError, match="early_size must be at least 1: got 0"):
        ViewsConfig(early_size=0)
    with pytest.raises(OptionError, match=r"early_share must be a share of the epochs, 0 to 1: got 1.5"):
        ViewsConfig(early_size=8, early_share=1.5)


def test_without_early_size_nothing_is_shrunk(tmp_path):
    train(config(ViewsConfig("sincere", 2)), run=tmp_path, data=images(), show="off")
    assert {shape[2:] for shape in SEEN} == {(16, 16)}
