"""On a CUDA device: steps that are recorded as a CUDA graph are the steps that they record."""

from contextlib import nullcontext

import pytest
import torch

from sincere.claims import random_image_labels
from sincere.claims.random_image_labels import Fitter, Fitting
from sincere.data import LabelledData, Splits
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    OptimizerConfig,
    ViewsConfig,
)
from sincere.train.processes import Processes
from sincere.train.session import build_session
from small_runs import small_config

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SMALL = {"hole": {"pixels": 4}, "flip": {"alternate": True}}  # images of 16 pixels have no room for a larger hole
CASES = {
    "one view": {"views": ViewsConfig("plain", 1, SMALL)},
    "two views": {"views": ViewsConfig("sincere", 2)},
    "learned temperature": {"loss": LossConfig(learnable_temperature=True), "views": ViewsConfig("plain", 2, SMALL)},
    "cross-entropy": {"objective": "cross_entropy", "views": ViewsConfig("plain", 2, SMALL)},
    # 32 samples in three views are more than the 64 contrasts up to which it is exact, and waits for the device.
    "set loss": {"loss": LossConfig("set_nce"), "views": ViewsConfig("plain", 3, SMALL)},
    "set loss of few": {
        "loss": LossConfig("set_nce", options={"method": "saddle"}),
        "views": ViewsConfig("sincere", 2),
    },
}


def images(samples: int = 120) -> Splits:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (samples, 3, 16, 16), dtype=torch.uint8, generator=generator)
    labels = torch.arange(samples) % 3
    data = LabelledData(inputs, labels, ("ant", "bee", "cat"), "image", "noise")
    return Splits(data, None, data)


def session(compile: str, **changes):
    compute = ComputeConfig(device="cuda", precision="bf16", channels_last=True, compile=compile)
    # Small steps of embeddings that are not too short: otherwise bfloat16's rounding would grow from step to step.
    config = small_config(
        batches=BatchesConfig(32, "shuffled", drop_last=False),
        head=HeadConfig(dim=32),
        optimizer=OptimizerConfig(lr=0.02),
        compute=compute,
        **{"encoder": EncoderConfig("short_cnn", {"channels": [8, 16, 16]}), **changes},
    )
    return build_session(config, images(), torch.device("cuda"), Processes())


def losses_of(made, epoch):
    """The losses of an epoch's steps, which are made."""
    made.parts.network.train()
    plan = made.planner.plan(epoch)
    steps = [(plan.batch(place), epoch * len(plan) + place) for place in range(len(plan))]
    return [made.step(batch, step=step, times_before=epoch, share=0.5).item() for batch, step in steps]


WAYS = [*[("graphs", case) for case in CASES], ("compiled-graphs", "two views"), ("tuned-graphs", "two views")]


@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # the compiler's advice, which errors would hide
@pytest.mark.parametrize(("way", "case"), WAYS)
def test_recorded_steps_are_the_steps(way, case):
    """Three epochs of three complete batches and one that is left over; seven of the nine are replayed."""
    torch.compiler.reset()
    plain, recorded = session("off", **CASES[case]), session(way, **CASES[case])
    expected, values = ([loss for epoch in range(3) for loss in losses_of(made, epoch)] for made in (plain, recorded))
    assert recorded.step.recorded is not None
    assert list(recorded.step.recorded.recordings) == [32]
    assert values == pytest.approx(expected, rel=2e-2)  # bfloat16, and kernels chosen anew
    weights = zip(plain.model.parameters(), recorded.model.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=0.02, rtol=0.05) for a, b in weights)


def test_steps_of_smaller_views_are_recorded_for_themselves():
    """Three epochs at 10 pixels and three at 16: both are replayed, and neither in the place of the other."""
    views = ViewsConfig("plain", 2, SMALL, early_size=10)
    plain, recorded = (session(how, views=views, epochs=6) for how in ("off", "graphs"))
    made = []  # sizes of batches that are recorded, after each epoch
    for epoch in range(6):
        assert losses_of(recorded, epoch) == pytest.approx(losses_of(plain, epoch), rel=2e-2)
        early = recorded.step.recorded_early
        made.append(None if early is None else list(early.recordings))
    # The first three complete batches run plainly, so the recording is made in the second epoch.
    assert made == [[], [32], [32], None, None, None]
    assert list(recorded.step.recorded.recordings) == [32]


def test_a_replay_reads_the_new_batch():
    """Twice the same batch and then another: what is replayed follows its inputs, not those of the recording."""
    made = session("graphs", **CASES["one view"])
    made.parts.network.train()
    plan = made.planner.plan(0)
    for step in range(5):
        made.step(plan.batch(0), step=step, times_before=0, share=1e-9)
    again = made.step(plan.batch(0), step=4, times_before=0, share=1e-9).item()
    assert made.step(plan.batch(0), step=4, times_before=0, share=1e-9).item() == pytest.approx(again, rel=1e-3)
    assert made.step(plan.batch(1), step=4, times_before=0, share=1e-9).item() != pytest.approx(again, rel=1e-3)


@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.filterwarnings(r"ignore:\s*Online softmax is disabled:UserWarning")
@pytest.mark.parametrize("loss", random_image_labels.LOSSES)
@pytest.mark.parametrize("compiled", [False, True])
def test_fitted_by_recorded_steps_a_network_is_what_plain_steps_make_of_it(loss, compiled, monkeypatch):
    """Twice: the second run starts anew on what was recorded for the first.

    Compiled steps are compared with compiled ones: they round otherwise than plain ones, and eight steps of so small
    a network turn a thousandth more or less in the images into a third more or less in the weights.
    """
    torch.compiler.reset()
    monkeypatch.setattr(random_image_labels, "WORTH_COMPILING", 0 if compiled else 1 << 40)
    data = images().train
    inputs, labels = random_image_labels.normalised(data.inputs.cuda()), data.labels.cuda()
    # No share of right labels is above 1: both epochs of four batches are run.
    fitting = Fitting("short_cnn", {"channels": [8, 16, 16]}, 120, max_epochs=2, batch=30, threshold=1.1)
    plain, recorded = (Fitter(loss, inputs, 3, fitting) for _ in range(2))
    plain._step = plain._forward_and_backward
    for seed in (0, 1):
        runs = [fitter.steps_to_fit(labels, rate=0.02, share=0.0, seed=seed) for fitter in (plain, recorded)]
        assert runs[0] == runs[1]
        assert runs[0].steps == 8
        weights = zip(plain.network.parameters(), recorded.network.parameters(), strict=True)
        assert all(torch.allclose(a, b, atol=1e-3, rtol=1e-3) for a, b in weights)
    assert list(recorded._step.recordings) == [30]


class Looks(torch.nn.Module):
    """An encoder that looks at its numbers, which no CUDA graph can record: `test_gpu_training:Looks`."""

    feature_dim = 4

    def __init__(self, shape):
        super().__init__()
        self.layer = torch.nn.Linear(shape[0], 4)

    def forward(self, images):
        means = images.mean(dim=(2, 3))
        return self.layer(means) if means.sum().item() < 1e9 else means


class LooksAndDrops(Looks):
    """The same with random numbers: `test_gpu_training:LooksAndDrops`."""

    def forward(self, images):
        return torch.nn.functional.dropout(super().forward(images), 0.25, self.training)


def test_what_cannot_be_recorded_goes_on_plainly():
    one = {"views": ViewsConfig("plain", 1, SMALL)}
    made, plain = (session(how, **one, encoder=EncoderConfig(f"{__name__}:Looks")) for how in ("graphs", "off"))

    def losses(one):
        batch = one.planner.plan(0).batch(0)
        return [one.step(batch, step=step, times_before=0, share=0.5).item() for step in range(6)]

    torch.cuda.manual_seed(7)
    expected = torch.randn(4, device="cuda")
    with pytest.warns(RuntimeWarning, match="could not be recorded"):
        values = losses(made)
    assert values == pytest.approx(losses(plain), rel=1e-2)
    assert not made.step.recorded.recordings
    torch.cuda.manual_seed(7)  # torch would refuse to draw after the recording that failed
    torch.testing.assert_close(torch.randn(4, device="cuda"), expected)


def test_layers_that_draw_go_on_where_nothing_can_be_recorded():
    """Dropout beside a look at the numbers: the steps are those of a run without a recording."""
    one = {"views": ViewsConfig("plain", 1, SMALL)}
    made, plain = (session(how, **one, encoder=EncoderConfig(f"{__name__}:LooksAndDrops")) for how in ("graphs", "off"))
    values = {}
    for name, each in (("made", made), ("plain", plain)):
        each.parts.network.train()
        batch = each.planner.plan(0).batch(0)
        with pytest.warns(RuntimeWarning, match="could not be recorded") if each is made else nullcontext():
            values[name] = [each.step(batch, step=step, times_before=0, share=0.5).item() for step in range(6)]
    assert values["made"] == pytest.approx(values["plain"], rel=1e-2)
