"""Optimizers and schedule against float64 loops written from their papers, and Muon against an exact decomposition."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sincere.errors import OptionError
from sincere.train.config import OptimizerConfig, ScheduleConfig
from sincere.train.lars import LARS
from sincere.train.muon import Muon, orthogonalised
from sincere.train.optimizer import build_optimizers, hidden_matrices
from sincere.train.schedule import learning_rate


def gradients(steps, *shapes):
    generator = np.random.default_rng(0)
    return [[generator.standard_normal(shape) for shape in shapes] for _ in range(steps)]


def after_steps(optimizer, parameters, all_gradients, rates):
    for step, rate in zip(all_gradients, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
    return [parameter.detach().numpy() for parameter in parameters]


def parameters_like(*shapes):
    generator = np.random.default_rng(1)
    start = [generator.standard_normal(shape) for shape in shapes]
    return start, [nn.Parameter(torch.from_numpy(values.copy())) for values in start]


def test_lars_is_algorithm_1():
    shapes, rates = [(4, 3), (5, 2, 3, 3), (4,)], [0.3, 0.2, 0.1, 0.05]
    start, parameters = parameters_like(*shapes)
    steps = gradients(4, *shapes)
    momentum, decay, trust = 0.9, 0.02, 0.01
    velocity = [np.zeros(shape) for shape in shapes]
    for rate, step in zip(rates, steps, strict=True):
        for i, gradient in enumerate(step):
            w = start[i]
            local = 1.0
            if w.ndim > 1:
                local = trust * np.sqrt((w**2).sum()) / (np.sqrt((gradient**2).sum()) + decay * np.sqrt((w**2).sum()))
            velocity[i] = momentum * velocity[i] + rate * local * (gradient + decay * w)
            start[i] = w - velocity[i]
    optimizer = LARS(parameters, momentum=momentum, weight_decay=decay, trust=trust)
    for got, want in zip(after_steps(optimizer, parameters, steps, rates), start, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_lars_moves_a_zero_weight_and_leaves_one_without_gradient():
    weight = nn.Parameter(torch.zeros(2, 2))
    still = nn.Parameter(torch.ones(2, 2))
    optimizer = LARS([weight, still], 0.5, momentum=0.0)
    weight.grad = torch.ones(2, 2)
    optimizer.step()
    assert torch.equal(weight, torch.full((2, 2), -0.5))
    still.grad = torch.zeros(2, 2)
    optimizer.step()
    assert torch.equal(still, torch.ones(2, 2))


@pytest.mark.parametrize("shape", [(6, 6), (3, 10), (12, 4), (2, 5, 7)])
def test_newton_schulz_keeps_directions_and_evens_lengths(shape):
    matrices = torch.randn(shape, dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    made = orthogonalised(matrices, rounds=5, dtype=torch.float64)
    # In the basis of the decomposition it must be diagonal: the same singular vectors, other singular values.
    inside = u.mT @ made @ v.mT
    diagonal = inside.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(inside, torch.diag_embed(diagonal), rtol=0, atol=1e-9)
    # Values that start above 0.02 of the norm end between 0.6 and 1.25; smaller ones are on their way.
    share = s / torch.linalg.matrix_norm(matrices).unsqueeze(-1)
    assert diagonal[share > 0.02].min() > 0.6
    assert diagonal.max() < 1.25


def test_newton_schulz_is_the_scalar_polynomial_on_singular_values():
    matrix = torch.randn(5, 8, dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    x = (s / s.square().sum().sqrt()).numpy()
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    expected = u @ torch.diag(torch.from_numpy(x)) @ v
    torch.testing.assert_close(orthogonalised(matrix, dtype=torch.float64), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_a_loop_over_an_exact_decomposition(nesterov):
    """With the rounds' polynomial applied to exact singular values; a convolution counts as a matrix."""
    shapes, rates = [(4, 6), (8, 2, 3, 3), (4, 6), (9, 3)], [0.1, 0.05, 0.02]
    start, parameters = parameters_like(*shapes)
    steps = gradients(3, *shapes)
    momentum, decay = 0.9, 0.1
    velocity = [np.zeros(shape) for shape in shapes]
    for rate, step in zip(rates, steps, strict=True):
        for i, gradient in enumerate(step):
            velocity[i] = momentum * velocity[i] + gradient
            direction = gradient + momentum * velocity[i] if nesterov else velocity[i]
            matrix = direction.reshape(shapes[i][0], -1)
            u, s, v = np.linalg.svd(matrix, full_matrices=False)
            s = s / np.sqrt((s**2).sum())
            for _ in range(5):
                s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
            size = rate * math.sqrt(max(1, matrix.shape[0] / matrix.shape[1]))
            start[i] = start[i] * (1 - rate * decay) - size * (u @ np.diag(s) @ v).reshape(shapes[i])
    optimizer = Muon(parameters, momentum=momentum, nesterov=nesterov, weight_decay=decay, dtype=torch.float64)
    for got, want in zip(after_steps(optimizer, parameters, steps, rates), start, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon of its own")
def test_muon_agrees_with_torchs_on_matrices():
    """Both round to bfloat16, in another order: ours must be no further from float64 than theirs, plus slack."""
    start = [torch.randn(7, 5), torch.randn(4, 16), torch.randn(12, 12)]
    options = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}

    def three_steps(make, dtype=torch.float32):
        weights = [nn.Parameter(values.to(dtype, copy=True)) for values in start]
        optimizer = make(weights)
        generator = torch.Generator().manual_seed(1)
        for _ in range(3):
            for weight in weights:
                weight.grad = torch.randn(weight.shape, generator=generator).to(dtype)
            optimizer.step()
        return torch.cat([weight.detach().double().flatten() for weight in weights])

    truth = three_steps(lambda weights: Muon(weights, dtype=torch.float64, **options), torch.float64)
    ours = three_steps(lambda weights: Muon(weights, dtype=torch.bfloat16, **options))
    theirs = three_steps(lambda weights: torch.optim.Muon(weights, **options))
    moved = (truth - torch.cat([values.double().flatten() for values in start])).norm()
    assert (theirs - truth).norm() < 0.03 * moved
    assert (ours - truth).norm() < 1.25 * (theirs - truth).norm()


def test_muon_without_a_round_moves_along_the_gradient_by_a_length_of_one():
    start, (weight,) = parameters_like((6, 3))
    (gradient,) = gradients(1, (6, 3))[0]
    muon = Muon([weight], 0.1, momentum=0.0, nesterov=False, rounds=0, dtype=torch.float64)
    (moved,) = after_steps(muon, [weight], [[gradient]], [0.1])
    np.testing.assert_allclose(moved, start[0] - 0.1 * 2**0.5 * gradient / np.linalg.norm(gradient), rtol=1e-12)


def test_muon_refuses_vectors():
    with pytest.raises(ValueError, match="matrices"):
        Muon([nn.Parameter(torch.zeros(3))])


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(5, 4)
        self.first, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.middle, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.classifier = nn.Linear(3, 2)


def test_muon_takes_hidden_matrices_alone():
    assert hidden_matrices(Toy()) == {"middle.weight"}
    made = build_optimizers(OptimizerConfig(name="muon", lr=0.1, others_lr=0.01), Toy(), nn.Module())
    muon, rest = made.parts
    assert [tuple(p.shape) for p in muon.param_groups[0]["params"]] == [(6, 6)]
    assert sum(len(group["params"]) for group in rest.param_groups) == len(list(Toy().parameters())) - 1
    made.set_rate(0.5)
    assert [group["lr"] for group in made.groups] == [0.05, 0.005]


@pytest.mark.parametrize(("decay", "expected"), [("all", 0), ("matrices", 6)])
def test_decay_on_all_or_on_matrices(decay, expected):
    class Temperature(nn.Module):
        def __init__(self):
            super().__init__()
            self.log_temperature = nn.Parameter(torch.tensor(0.0))

    made = build_optimizers(OptimizerConfig(weight_decay=0.1, decay=decay), Toy(), Temperature())
    spared = [p for group in made.groups if group["weight_decay"] == 0 for p in group["params"]]
    assert len(spared) == expected + 1  # the temperature is never decayed
    assert "loss.log_temperature" in made.named


@pytest.mark.parametrize(("own", "expected"), [(None, 0.05), (1e-4, 1e-4), (0.0, 0.0)])
def test_what_muon_leaves_to_others_may_decay_by_itself(own, expected):
    config = OptimizerConfig("muon", weight_decay=0.05, others="sgd", others_weight_decay=own)
    moved, others = build_optimizers(config, Toy(), nn.Module()).parts
    assert {group["weight_decay"] for group in moved.param_groups} == {0.05}
    assert {group["weight_decay"] for group in others.param_groups} == {expected}
    plain = build_optimizers(replace(config, name="sgd"), Toy(), nn.Module())
    assert {group["weight_decay"] for group in plain.groups} == {0.05}


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars", "muon"])
def test_optimizer_state_goes_away_and_comes_back(name):
    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3))

    def move(made, module, seed):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
        module(x).square().mean().backward()
        made.step()

    config = OptimizerConfig(name=name, lr=0.1, clip_norm=1.0)
    one, other = network(), network()
    straight = build_optimizers(config, one, nn.Module())
    for seed in range(4):
        move(straight, one, seed)
    broken = build_optimizers(config, other, nn.Module())
    for seed in range(2):
        move(broken, other, seed)
    resumed = build_optimizers(config, other, nn.Module())
    resumed.load_state({place: value.clone() for place, value in broken.state().items()})
    for seed in range(2, 4):
        move(resumed, other, seed)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


PAPER = ScheduleConfig(warmup_epochs=10, warmup_start_lr=0.0005, end_lr=0.0005)


@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("overflow", [float("inf"), float("nan")])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["of the others", "of muon", "of the others again"])
def test_an_overflow_anywhere_stops_the_whole_step(clip_norm, overflow, place):
    """Float16: a gradient that overflowed is forgotten with all others, the scale is halved, and the next one moves."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3))
    made = build_optimizers(OptimizerConfig("muon", 0.1, others="sgd", clip_norm=clip_norm), network, nn.Module())
    assert len(made.parts) == 2
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)

    def step(spoilt):
        scaler.scale(network(torch.ones(2, 4)).square().mean()).backward()
        if spoilt:
            network[place].weight.grad[0, 0] = overflow
        made.step(scaler)

    step(spoilt=False)
    before = [parameter.clone() for parameter in network.parameters()]
    step(spoilt=True)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    assert scaler.get_scale() == 8.0
    step(spoilt=False)
    assert all(parameter.isfinite().all() for parameter in network.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


@pytest.mark.parametrize("scale", [None, 1024.0])
@pytest.mark.parametrize("clip_norm", [0.3, 1e6])
def test_clipping_is_of_the_length_of_all_true_gradients_together(scale, clip_norm):
    """Those of a learned temperature included; in float16 of gradients that were scaled back."""
    torch.manual_seed(0)
    network, loss = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), nn.Module()
    loss.log_temperature = nn.Parameter(torch.tensor(0.5))
    weights = [*network.parameters(), loss.log_temperature]

    def value():
        return (network(torch.ones(2, 4)).square().mean() + 1) * loss.log_temperature.exp()

    before = [weight.detach().clone() for weight in weights]
    slopes = torch.autograd.grad(value(), weights)
    length = math.sqrt(sum(float(slope.double().square().sum()) for slope in slopes))
    assert length > 0.3
    made = build_optimizers(
        OptimizerConfig("sgd", 0.1, momentum=0.0, nesterov=False, weight_decay=0.0, clip_norm=clip_norm), network, loss
    )
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    (value() if scaler is None else scaler.scale(value())).backward()
    made.step(scaler)
    for weight, old, slope in zip(weights, before, slopes, strict=True):
        wanted = old - 0.1 * min(1.0, clip_norm / length) * slope
        torch.testing.assert_close(weight.detach(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "lars"])
def test_what_is_remembered_of_a_learned_temperature_follows_it_to_its_device(name):
    """It has no dimension, as a step count has none, but it is no step count. A device without memory stands in."""
    network, loss = nn.Linear(4, 5, device="meta"), nn.Module()
    loss.log_temperature = nn.Parameter(torch.zeros((), device="meta"))
    made = build_optimizers(OptimizerConfig(name=name), network, loss)
    made.load_state(
        {"momentum_buffer/weight": torch.ones(5, 4), "momentum_buffer/loss.log_temperature": torch.ones(())}
    )
    assert {value.device.type for value in made.state().values()} == {"meta"}


def test_step_counts_stay_on_the_cpu_where_the_optimizer_wants_them():
    network = nn.Linear(4, 5, device="meta")
    made = build_optimizers(OptimizerConfig(name="adamw"), network, nn.Module())
    made.load_state({"step/weight": torch.tensor(3.0), "exp_avg/weight": torch.ones(5, 4)})
    assert {place: value.device.type for place, value in made.state().items()} == {
        "step/weight": "cpu",
        "exp_avg/weight": "meta",
    }


def test_the_papers_schedule():
    """SINCERE, Section 4.3: 10 epochs from 0.0005 to 0.5, then a cosine to 0.0005 at the last of 1,000 epochs."""
    rates = [learning_rate(PAPER, 0.5, step=s, steps_per_epoch=98, epochs=1000) for s in range(98_000)]
    assert rates[0] == 0.0005
    assert rates[980] == max(rates) == 0.5
    assert np.diff(rates[:981]).min() == pytest.approx(np.diff(rates[:981]).max())
    assert (np.diff(rates[980:]) < 0).all()
    assert rates[980 + (97_999 - 980) // 2] == pytest.approx((0.5 + 0.0005) / 2, rel=1e-4)
    assert rates[-1] == pytest.approx(0.0005)


def test_the_reference_codes_schedule():
    """The authors' code: the cosine runs over all epochs, and the warm-up from 0.01 ends where it has got to."""
    config = ScheduleConfig(warmup_epochs=10, warmup_start_lr=0.01, end_lr=0.0005, cosine_from="start")
    at = [learning_rate(config, 0.5, step=98 * e, steps_per_epoch=98, epochs=1000) for e in (0, 10, 500)]
    expected = [0.0005 + (0.5 - 0.0005) * (1 + math.cos(math.pi * 98 * e / 97_999)) / 2 for e in (10, 500)]
    assert at == pytest.approx([0.01, *expected])


@pytest.mark.parametrize("epochs", [1, 3])
def test_schedules_of_no_length(epochs):
    for warmup in (0, epochs):
        config = ScheduleConfig(warmup_epochs=warmup)
        rates = [learning_rate(config, 1.0, step=s, steps_per_epoch=1, epochs=epochs) for s in range(epochs)]
        assert all(0 <= rate <= 1 for rate in rates)
    flat = ScheduleConfig(shape="constant", warmup_epochs=1)
    assert learning_rate(flat, 0.3, step=7, steps_per_epoch=2, epochs=4) == 0.3


def test_a_warm_up_ends_where_the_cosine_has_got_to():
    """Every step of "start": a straight line to the cosine's value at the end of the warm-up, then the cosine."""
    config = ScheduleConfig(warmup_epochs=2, warmup_start_lr=0.2, end_lr=0.1, cosine_from="start")
    cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * step / 9)) / 2 for step in range(10)]
    expected = [0.2 + (cosine[4] - 0.2) * step / 4 for step in range(4)] + cosine[4:]
    found = [learning_rate(config, 1.0, step=step, steps_per_epoch=2, epochs=5) for step in range(10)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("cosine_from", "goal"), [("warmup", 1.0), ("start", 0.1)])
def test_a_warm_up_that_takes_the_whole_run(cosine_from, goal):
    """The cosine has not begun, or is at its end."""
    config = ScheduleConfig(warmup_epochs=2, warmup_start_lr=0.2, end_lr=0.1, cosine_from=cosine_from)
    found = [learning_rate(config, 1.0, step=step, steps_per_epoch=1, epochs=2) for step in range(2)]
    assert found == pytest.approx([0.2, (0.2 + goal) / 2])


@pytest.mark.parametrize("power", [1.0, 5.0, 0.5])
def test_a_rate_that_falls_with_a_power_of_what_is_left(power):
    """Graf et al.'s code has ((N − i)/N)^5; here the last step stands at the end of it."""
    config = ScheduleConfig("polynomial", warmup_epochs=1, end_lr=0.1, power=power)
    found = [learning_rate(config, 1.0, step=step, steps_per_epoch=4, epochs=3) for step in range(12)]
    expected = [0.0, 0.25, 0.5, 0.75] + [0.1 + 0.9 * ((7 - step) / 7) ** power for step in range(8)]
    assert found == pytest.approx(expected)


def test_powers_belong_to_polynomials():
    with pytest.raises(OptionError, match="power must be positive: got 0"):
        ScheduleConfig("polynomial", power=0.0)
    with pytest.raises(OptionError, match=r'power belongs to shape="polynomial": got \'cosine\''):
        ScheduleConfig(power=2.0)
    with pytest.raises(OptionError, match=r'cosine_from="start" belongs to shape="cosine"'):
        ScheduleConfig("polynomial", cosine_from="start")


def test_schedules_to_the_step():
    one_step = ScheduleConfig(end_lr=0.1)
    assert learning_rate(one_step, 1.0, step=0, steps_per_epoch=1, epochs=1) == 1.0
    constant = ScheduleConfig(shape="constant", end_lr=0.1)
    assert learning_rate(constant, 1.0, step=99, steps_per_epoch=100, epochs=1) == 1.0
    warm_up = ScheduleConfig(shape="constant", warmup_epochs=0.29)  # of 100 steps 28.999999999999996
    rates = [learning_rate(warm_up, 1.0, step=step, steps_per_epoch=100, epochs=1) for step in (28, 29)]
    assert rates == pytest.approx([28 / 29, 1.0], abs=1e-12)
