"""Repulsion, KL bounds and loss readings: against autograd on a free similarity matrix and the float64 oracles."""

import math

import numpy as np
import pytest
import torch

import sincere.functional as SF
from embedded import made, simplex, unit
from sincere import diagnose
from sincere.embeddings import EmbeddingSet
from sincere.errors import OptionError
from sincere.geometry import anchors, kl_bounds, loss_readings, loss_values, repulsion
from sincere.losses.backends import class_layout

LOSSES = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "supcon_in": lambda *args, **options: SF.supcon(*args, form="in", **options),
    "eps_supinfonce": SF.eps_supinfonce,
    "decoupled": SF.decoupled,
    "set_nce": SF.set_nce,
}


@pytest.fixture(params=[5, 512], ids=["classes in pieces", "one block"])
def block(request, monkeypatch):
    monkeypatch.setattr(class_layout, "BLOCK", request.param)


def truth(found, temperature):
    """Loops: logits, and per anchor its positives and negatives."""
    rows, labels = unit(found), found.labels.numpy()
    for t in range(len(labels)):
        others = np.arange(len(labels)) != t
        s = rows @ rows[t] / temperature
        yield t, s[(labels == labels[t]) & others], s[labels != labels[t]]


@pytest.mark.parametrize("temperature", [0.01, 0.1])
@pytest.mark.parametrize("name", LOSSES)
def test_repulsion_is_the_share_of_positive_derivatives(name, temperature, block):
    found = made(n=40, classes=4, noise=0.3)
    cosine = torch.from_numpy(unit(found)) @ torch.from_numpy(unit(found)).T
    free = cosine.clone().requires_grad_()
    value = LOSSES[name](
        cosine, found.labels, similarity=lambda a, c: free, temperature=temperature, reduction="sum", backend="dense"
    )
    (gradient,) = torch.autograd.grad(value, free)
    same = (found.labels.unsqueeze(1) == found.labels).fill_diagonal_(False)
    share = float((gradient[same] > 1e-13).double().mean())  # rounding around a derivative of zero is no push
    assert repulsion(found, temperature=temperature)[name] == pytest.approx(share, abs=1e-12)
    assert (share > 0.2) == (name == "supcon")


@pytest.mark.parametrize("temperature", [0.02, 0.05, 0.1, 1.0])
def test_readings_and_bounds_are_those_of_the_equations(temperature, block):
    found = made(n=60, classes=4, noise=1.0)
    readings, bounds = loss_readings(found, temperature=temperature), kl_bounds(found, temperature=temperature)
    sums = {name: [] for name in ("sincere", "supcon", "supcon_in", "eps_supinfonce", "decoupled")}
    by_class = {name: [] for name in found.class_names}
    for t, pos, neg in truth(found, temperature):
        everyone = np.logaddexp.reduce(np.r_[pos, neg])
        lse_neg = np.logaddexp.reduce(neg)
        sums["sincere"].append(np.mean(np.logaddexp(pos, lse_neg) - pos))
        sums["supcon"].append(np.mean(everyone - pos))
        sums["supcon_in"].append(everyone - np.logaddexp.reduce(pos) + math.log(len(pos)))
        sums["eps_supinfonce"].append(np.mean(np.logaddexp(pos - 0.25, lse_neg) - pos))
        sums["decoupled"].append(np.mean(lse_neg - pos))
        by_class[found.class_names[int(found.labels[t])]].append(math.log(len(neg)) - sums["sincere"][-1])
    for name, values in sums.items():
        assert readings[name].value == pytest.approx(np.mean(values), rel=1e-5, abs=1e-5), name
    assert readings["set_nce"].value == pytest.approx(
        float(SF.set_nce(found.embeddings.double(), found.labels, temperature=temperature)), rel=1e-4, abs=1e-5
    )
    for name, values in by_class.items():
        assert bounds[name] == pytest.approx(np.mean(values), rel=1e-5, abs=1e-5)


def test_they_agree_with_diagnose_where_both_speak():
    found = made(n=80, classes=6, noise=0.8)
    other = diagnose(found.embeddings, found.labels, temperature=0.1)
    assert repulsion(found)["supcon"] == pytest.approx(other.repulsion, abs=1e-6)
    for name, reading in loss_readings(found).items():
        assert reading.value == pytest.approx(other.losses[name].value, abs=1e-5)
        assert reading.floor == pytest.approx(other.losses[name].floor, abs=1e-9)
    assert list(kl_bounds(found).values()) == pytest.approx(list(other.kl_bound.values()), abs=1e-5)


def test_at_the_simplex_nothing_is_left_to_gain():
    for name, reading in loss_readings(simplex(classes=4, members=6), temperature=0.3).items():
        assert reading.excess == pytest.approx(0, abs=2e-4 if name == "set_nce" else 2e-6), name
    readings = loss_readings(simplex(classes=4, members=6), temperature=0.3)
    gap = 4 / (3 * 0.3)
    assert readings["sincere"].floor == pytest.approx(math.log1p(18 * math.exp(-gap)))
    assert readings["supcon"].floor == pytest.approx(math.log(5 + 18 * math.exp(-gap)))


def test_batches_have_floors_of_their_own():
    found = made(n=70, classes=3)
    shuffled = torch.randperm(70, generator=torch.Generator().manual_seed(4))
    parts = [found.subset(shuffled[start : start + 16]) for start in range(0, 64, 16)]
    singles = [diagnose(part.embeddings, part.labels, temperature=0.1).losses for part in parts]
    readings = loss_readings(found, batch=16, seed=4)
    for name, reading in readings.items():
        assert reading.value == pytest.approx(np.mean([one[name].value for one in singles]), abs=1e-5)
        assert reading.floor == pytest.approx(np.mean([one[name].floor for one in singles]), abs=1e-9)
    assert len(readings) == 6
    with pytest.raises(OptionError, match="batch must lie between 2 and the 70 samples"):
        loss_readings(found, batch=71)


def test_sets_without_positives_or_negatives():
    one_class = made(n=20, classes=1)
    assert kl_bounds(one_class) == {}
    assert "decoupled" not in loss_readings(one_class)
    assert loss_readings(one_class)["sincere"].value == 0
    singles = EmbeddingSet(torch.randn(5, 3), torch.arange(5), tuple("abcde"), "singles")
    assert loss_readings(singles) == {}
    assert kl_bounds(singles) == {}
    assert set(repulsion(singles).values()) == {0.0}


def test_the_set_loss_is_left_out_of_large_sets(monkeypatch):
    monkeypatch.setattr(loss_values, "SET_LOSS_UP_TO", 50)
    assert "set_nce" not in loss_readings(made(n=51))
    assert "set_nce" in loss_readings(made(n=50))
    assert "set_nce" in loss_readings(made(n=60), batch=55)


@pytest.mark.parametrize("members", [2, 20, 50])
@pytest.mark.parametrize("temperature", [0.5, 0.1, 0.05, 1 / 32, 0.02])
def test_supcon_pushes_nothing_apart_where_classes_are_points(members, temperature):
    """|P| · softmax = (1 + |N| e^−gap / |P|)^−1 < 1 at the simplex, however far float32 is from telling it from 1."""
    generator = torch.Generator().manual_seed(1)
    turn, _ = torch.linalg.qr(torch.randn(16, 16, dtype=torch.float64, generator=generator))
    for classes in (2, 3, 10):
        corners = torch.eye(classes, 16, dtype=torch.float64)
        corners[:, :classes] -= 1 / classes
        labels = np.repeat(np.arange(classes), members)
        found = EmbeddingSet.from_arrays((corners @ turn).float().numpy()[labels], labels)
        assert repulsion(found, temperature=temperature)["supcon"] == 0


def test_one_positive_and_no_negative_is_not_pushed():
    found = EmbeddingSet.from_arrays([[0.3, -0.4, 0.2], [0.1, 0.5, -0.3]], [0, 0])
    assert all(repulsion(found, temperature=tau)["supcon"] == 0 for tau in (1.0, 0.3, 0.1, 0.01))


def test_a_batch_is_a_whole_number():
    with pytest.raises(OptionError, match="batch must lie between 2 and"):
        loss_readings(made(), batch=2.5)


@pytest.mark.parametrize("temperature", [0.01, 0.1])
def test_settings_for_speed_change_no_figure(temperature, monkeypatch):
    """Below 1/32 the losses' own backends compute; neither autocast nor TF32, where it counts, may reach them."""
    found = made(n=40, classes=4, noise=0.02)
    expected = repulsion(found, temperature=temperature), loss_readings(found, temperature=temperature)
    seen, matmul = [], torch.backends.cuda.matmul
    for module, name in ((anchors, "row_statistics"), (SF, "set_nce")):
        function = getattr(module, name)

        def watched(*given, function=function, **options):
            seen.append(matmul.fp32_precision)
            return function(*given, **options)

        monkeypatch.setattr(module, name, watched)
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (
                repulsion(found, temperature=temperature),
                loss_readings(found, temperature=temperature),
            ) == expected
    finally:
        matmul.fp32_precision = before
    assert seen
    assert set(seen) == {"ieee"}
