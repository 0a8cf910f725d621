"""What a session is built of: everything follows from the settings and the seed, and from nothing else."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from sincere.data import LabelledData, Splits
from sincere.embeddings.embed import in_layout_of
from sincere.runs import Checkpoint
from sincere.train import BatchesConfig, EncoderConfig, LossConfig, MemoryConfig, ReportingConfig
from sincere.train.checkpoint import Position, restore, run_state
from sincere.train.objective import mean_cross_entropy
from sincere.train.processes import Processes
from sincere.train.session import build_session
from sincere.train.validation import validate
from small_runs import small_config, small_splits


def built(**changes):
    return build_session(small_config(**changes), small_splits(), torch.device("cpu"), Processes())


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": MemoryConfig(queue=24)},
        {"memory": MemoryConfig(momentum=0.9)},
        {"objective": "joint"},
        {"objective": "cross_entropy"},
    ],
)
def test_there_is_no_excess_where_more_than_the_batch_takes_part(changes):
    """A queue's contrasts, a momentum encoder's keys, a classifier: the floor of the batch is not theirs."""
    assert built(**changes).meter().floor_of is None
    assert built().meter().floor_of is not None


@pytest.mark.parametrize("objective", ["contrastive", "cross_entropy", "joint"])
def test_all_weights_at_the_start_follow_from_the_seed(objective):
    """Whatever the caller has drawn before."""
    found = []
    for before, seed in ((1, 0), (2, 0), (1, 5)):
        torch.manual_seed(before)
        found.append(built(objective=objective, seed=seed).parts.network.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert not any(torch.equal(found[0][name], found[2][name]) for name in found[0] if name.endswith("weight"))


class WithWeights(torch.nn.Module):
    """A loss of the user's own that has weights, which its layer draws from torch's global generator."""

    def __init__(self, temperature):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def forward(self, embeddings, labels):
        return self.layer(embeddings).square().mean()


def test_weights_of_ones_own_loss_follow_from_the_seed_and_take_no_number_from_the_caller():
    """On several processes they would otherwise differ, and a run could not be repeated."""

    def weights(seed):
        loss = LossConfig(f"{__name__}:{WithWeights.__name__}")
        return built(loss=loss, seed=seed).parts.objective.loss.layer.weight.detach()

    torch.manual_seed(1)
    first = weights(0)
    torch.rand(3)
    assert torch.equal(weights(0), first)
    assert not torch.equal(weights(1), first)
    state = torch.get_rng_state()
    LossConfig(f"{__name__}:{WithWeights.__name__}")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("sampler", ["classes", "shuffled", "balanced"])
def test_batches_follow_from_the_seed(sampler):
    one, same, other = (
        built(batches=BatchesConfig(12, sampler), seed=seed).planner.plan(0).indices for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_precision_and_layout_reach_the_network():
    compute = small_config().compute
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        made = built(compute=replace(compute, precision=precision))
        assert made.parts.network(torch.randn(3, 2, 6)).dtype == dtype
        assert (made.step.scaler is not None) is (precision == "fp16")
    images = torch.randint(0, 255, (24, 3, 8, 8), dtype=torch.uint8)
    data = LabelledData(images, torch.arange(24) % 2, ("a", "b"), "image", "images")
    for wanted in (False, True):
        changes = {"encoder": EncoderConfig("small_cnn", {"width": 4}), "batches": BatchesConfig(8)}
        config = small_config(compute=replace(compute, channels_last=wanted), **changes)
        made = build_session(config, Splits(data, None, data), torch.device("cpu"), Processes())
        laid_out = in_layout_of(made.model, torch.empty(2, 3, 8, 8))
        assert laid_out.is_contiguous(memory_format=torch.channels_last) is wanted


def test_chunks_in_float16_move_the_weights_as_the_whole_batch_does():
    """Their gradients are scaled up too, as the optimizer scales them down."""
    compute, moved = replace(small_config().compute, precision="fp16"), []
    for chunk_size in (None, 5):
        made = built(compute=replace(compute, chunk_size=chunk_size))
        made.step.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)  # which overflows in neither way
        before = torch.cat([weight.detach().flatten() for weight in made.model.parameters()])
        made.step(made.planner.plan(0).batch(0), step=0, times_before=0, share=1.0)
        moved.append(torch.cat([weight.detach().flatten() for weight in made.model.parameters()]) - before)
    assert moved[0].norm() > 1e-3
    assert (moved[0] - moved[1]).norm() < 0.02 * moved[0].norm()


def test_the_same_references_are_asked_every_time():
    """Or the accuracy of two epochs would differ by who was drawn."""
    made = built()
    few = ReportingConfig(references=9, neighbours=1)
    views, found = made.parts.views, []
    for _ in range(6):
        found.append(validate(made.model, views, made.splits, few, precision="fp32"))
    assert all(one == found[0] for one in found)
    assert found[0].references == 9


def test_an_empty_validation_part_is_as_good_as_none():
    made = built()
    splits = replace(made.splits, validation=small_splits().validation.subset(torch.arange(0)))
    assert validate(made.model, made.parts.views, splits, ReportingConfig(), precision="fp32") is None


def test_each_key_of_a_momentum_encoder_has_the_label_of_its_sample():
    memory = built(memory=MemoryConfig(queue=12, momentum=0.9)).parts.memory
    labels, dim = torch.tensor([4, 7, 5]), memory.queue.embeddings.shape[1]
    keys = labels.view(3, 1, 1).expand(3, 2, dim).float()  # of the second and the third view
    for _ in range(2):  # then with these in the queue
        rows, classes = memory.contrasts(keys, labels)
        assert rows[:, 0].long().tolist() == classes.tolist()
        memory.remember(keys, torch.zeros(3, 1, dim), labels)
    assert sorted(classes.tolist()) == [4] * 4 + [5] * 4 + [7] * 4


def test_a_resumed_run_is_where_it_was_and_as_old():
    made = built()
    position = Position(3, *divmod(3, len(made.planner)), seconds=12.5)
    tensors, state = run_state(made, position, made.meter())
    assert restore(built(seed=1), Checkpoint(3, tensors, state), made.meter()) == position


def test_processes_drop_out_units_of_their_own():
    """Two processes with the same masks would see one pattern where there should be two."""
    changes = {"encoder": EncoderConfig("small_runs:layers", {"dropout": 0.5})}
    values = []
    for rank in (0, 1, 0):
        made = build_session(small_config(**changes), small_splits(), torch.device("cpu"), Processes(rank, 1))
        batch = made.planner.plan(0).batch(0)
        values.append(made.step(batch, step=0, times_before=0, share=1.0).item())
    assert values[0] == values[2] != values[1]


def test_each_step_and_each_seed_drops_out_units_of_its_own():
    """With one mask for all steps a run would train half of its network, and never the other half."""
    masks = {}
    for seed in (0, 1):
        made = built(encoder=EncoderConfig("small_runs:layers", {"dropout": 0.5}), seed=seed)
        batch = torch.arange(12)
        (dropout,) = [layer for layer in made.model.modules() if isinstance(layer, torch.nn.Dropout)]
        made.parts.network.train()
        for step in (0, 1, 2, 0):
            hook = dropout.register_forward_hook(
                lambda _, given, out, key=(seed, step): masks.setdefault(key, []).append(out == 0)
            )
            made.step(batch, step=step, times_before=0, share=1.0)
            hook.remove()
    assert all(torch.equal(*twice) for (_, step), twice in masks.items() if step == 0)
    found = torch.stack([each[0].flatten() for each in masks.values()])
    assert found.shape == (6, 12 * 2 * 16)
    kept_alike = torch.stack([(one == other).double().mean() for one, other in combinations(found, 2)])
    assert kept_alike.min() > 0.4  # half of them, by chance
    assert kept_alike.max() < 0.6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cross_entropy_of_logits_in_half_precision_is_added_up_in_single(dtype):
    """The sum over a batch has more digits than half precision holds, and here is more than float16 can hold at all."""
    logits, labels = (20 * torch.randn(3000, 2, 7)).to(dtype), torch.randint(0, 7, (3000,))
    rows = logits.double().numpy()
    each = np.log(np.exp(rows).sum(axis=2)) - rows[np.arange(3000), :, labels.numpy()]
    assert each.sum() > torch.finfo(torch.float16).max
    value = mean_cross_entropy(logits, labels)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(each.mean(), rel=1e-5)
