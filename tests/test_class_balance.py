"""`class_balanced=True`: the equation by a float64 loop, what must not change, and the simplex at any sizes."""

import math

import numpy as np
import pytest
import torch

import sincere
import sincere.functional as SF
from sincere import theory
from sincere.errors import OptionError
from sincere.losses.backends import class_layout, row_blocks
from sincere.theory.objectives import simplex_value
from sincere.train.config import LossConfig
from sincere.train.excess import batch_floor, has_floor

EPSILON, ALPHA = 0.3, 0.4
SIZES = (9, 5, 3, 2, 1)


def supcon_in(*args, **options):
    return SF.supcon(*args, form="in", **options)


def eps(*args, **options):
    return SF.eps_supinfonce(*args, epsilon=EPSILON, **options)


LOSSES = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "supcon_in": supcon_in,
    "eps_supinfonce": eps,
    "decoupled": SF.decoupled,
}
EACH_LOSS = pytest.mark.parametrize("name", LOSSES)
EACH_BACKEND = pytest.mark.parametrize("backend", ["dense", "tiled", "auto"])


def batch(*sizes, dim=6, seed=0, unlabelled=0):
    """Rows of classes of these sizes in random order, some of them unlabelled."""
    generator = torch.Generator().manual_seed(seed)
    labels = [label for label, size in enumerate(sizes) for _ in range(size)] + [-1] * unlabelled
    order = torch.randperm(len(labels), generator=generator)
    rows = torch.randn(len(labels), dim, generator=generator, dtype=torch.float64)
    return rows, torch.tensor(labels)[order]


def loop(name, z, y, temperature, contrasts=None, include_batch=False):
    """One value per anchor, None where there is none: for each class (m/C) times a mean, in plain Python."""
    unit = [[x / math.hypot(*row) for x in row] for row in z.tolist()]
    columns, classes = (unit, y.tolist()) if contrasts is None or include_batch else ([], [])
    if contrasts is not None:
        columns = columns + [[x / math.hypot(*row) for x in row] for row in contrasts[0].tolist()]
        classes = classes + contrasts[1].tolist()
    own_is_there = contrasts is None or include_batch
    usable = [a for a, label in enumerate(classes) if label >= 0]
    present = sorted({classes[a] for a in usable})
    typical = len(usable) / len(present)
    found = []
    for t, label in enumerate(y.tolist()):
        s = [sum(p * q for p, q in zip(unit[t], column, strict=True)) / temperature for column in columns]
        positives = [a for a in usable if classes[a] == label and not (own_is_there and a == t)]
        if label < 0 or not positives:
            found.append(None)
            continue
        others = {c: [s[a] for a in usable if classes[a] == c] for c in present if c != label}
        negatives = sum(typical * np.mean(np.exp(logits)) for logits in others.values())
        e = np.exp([s[p] for p in positives])
        own = (typical - own_is_there) * np.mean(e)
        terms = {
            "sincere": np.mean(np.log(1 + negatives / e)),
            "supcon": np.mean(np.log((own + negatives) / e)),
            "supcon_in": -np.log(np.mean(e) / (own + negatives)),
            "eps_supinfonce": np.mean(np.log((e * math.exp(-EPSILON) + negatives) / e)),
            "decoupled": np.mean(np.log(negatives / e)) if others else None,
        }
        found.append(terms[name])
    return found


def expected_mean(values):
    valid = [value for value in values if value is not None]
    return float(np.mean(valid)) if valid else 0.0


@EACH_LOSS
@EACH_BACKEND
@pytest.mark.parametrize("sizes", [SIZES, (6, 6), (20, 1), (4,), (1, 1, 1)])
@pytest.mark.parametrize("unlabelled", [0, 3])
def test_the_value_is_that_of_the_loop(name, backend, sizes, unlabelled):
    z, y = batch(*sizes, unlabelled=unlabelled)
    found = LOSSES[name](z, y, temperature=0.2, class_balanced=True, backend=backend)
    assert found.item() == pytest.approx(expected_mean(loop(name, z, y, 0.2)), rel=1e-12, abs=1e-12)


@EACH_LOSS
@EACH_BACKEND
@pytest.mark.parametrize("include_batch", [False, True])
def test_contrasts_are_counted_where_they_are(name, backend, include_batch):
    (z, y), (c, of_c) = batch(*SIZES, unlabelled=2), batch(7, 1, 0, 4, 2, seed=1, unlabelled=1)
    options = {"temperature": 0.3, "include_batch": include_batch, "backend": backend}
    found = LOSSES[name](z, y, c, of_c, class_balanced=True, **options)
    truth = expected_mean(loop(name, z, y, 0.3, (c, of_c), include_batch))
    assert found.item() == pytest.approx(truth, rel=1e-12)


@EACH_LOSS
@EACH_BACKEND
def test_contrasts_in_double_precision_keep_their_digits(name, backend):
    """The logits are float64 then, and so is what classes weigh."""
    (z, y), (c, of_c) = batch(*SIZES), batch(7, 1, 4, seed=1)
    single = z.float()
    found = LOSSES[name](single, y, c, of_c, temperature=0.3, class_balanced=True, backend=backend)
    assert found.dtype == torch.float64
    assert found.item() == pytest.approx(expected_mean(loop(name, single.double(), y, 0.3, (c, of_c))), rel=1e-12)


@EACH_LOSS
def test_views_are_samples(name):
    z, y = batch(*SIZES)
    found = LOSSES[name](z.view(10, 2, 6), y[::2], temperature=0.2, class_balanced=True)
    assert found.item() == pytest.approx(expected_mean(loop(name, z, y[::2].repeat_interleave(2), 0.2)), rel=1e-12)


@EACH_LOSS
@EACH_BACKEND
def test_equal_classes_weigh_what_they_did(name, backend):
    z, y = batch(5, 5, 5)
    values = []
    for balanced in (False, True):
        rows = z.clone().requires_grad_()
        value = LOSSES[name](rows, y, class_balanced=balanced, backend=backend)
        value.backward()
        values.append((value.item(), rows.grad))
    assert values[1][0] == pytest.approx(values[0][0], rel=1e-13)
    assert torch.allclose(values[1][1], values[0][1], rtol=1e-12, atol=1e-14)


@EACH_LOSS
@pytest.mark.parametrize("backend", ["dense", "tiled"])
@pytest.mark.parametrize("temperature", [0.5, 0.02])  # in class order, and by blocks of anchors
def test_the_gradient_is_that_of_the_value(name, backend, temperature):
    z, y = batch(4, 3, 2, 1, unlabelled=1)
    c, of_c = batch(2, 3, 1, seed=1)

    def alone(rows):
        return LOSSES[name](rows, y, temperature=temperature, class_balanced=True, backend=backend)

    def against(rows, contrasts):
        options = {"temperature": temperature, "class_balanced": True, "backend": backend}
        return LOSSES[name](rows, y, contrasts, of_c, include_batch=True, **options)

    z.requires_grad_()
    assert torch.autograd.gradcheck(alone, [z], atol=1e-6)
    assert torch.autograd.gradcheck(against, [z, c.requires_grad_()], atol=1e-6)


@EACH_LOSS
@pytest.mark.parametrize("largest", [3, 16])
def test_many_small_blocks_are_one(name, largest, monkeypatch):
    """Blocks of several classes, and classes cut into pieces."""
    monkeypatch.setattr(class_layout, "BLOCK", largest)
    monkeypatch.setattr(row_blocks, "LOGITS_PER_BLOCK", 64)
    z, y = batch(30, 11, 7, 7, 2, 2, 1, unlabelled=4)
    found = []
    for backend in ("dense", "tiled"):
        rows = z.clone().requires_grad_()
        value = LOSSES[name](rows, y, temperature=0.1, class_balanced=True, backend=backend, reduction="class_mean")
        value.backward()
        found.append((value.item(), rows.grad))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-12)
    assert torch.allclose(found[1][1], found[0][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["sincere", "decoupled", "supcon"])
def test_copies_of_a_class_add_nothing_to_it(name):
    """Three copies of every contrast of one class: its mean is what it was, and m/C is a common factor.

    But in SINCERE, whose positive in the denominator has a weight of 1, as in the paper.
    """
    (z, y), (c, of_c) = batch(*SIZES), batch(3, 3, 3, seed=1)
    copied = torch.cat([c, c[of_c == 1], c[of_c == 1]])
    of_copied = torch.cat([of_c, torch.ones(6, dtype=torch.int64)])
    anchors = (y != 1) & (y < 3)
    gradients = {}
    for balanced in (True, False):
        for contrasts in ((c, of_c), (copied, of_copied)):
            rows = z[anchors].clone().requires_grad_()
            LOSSES[name](rows, y[anchors], *contrasts, class_balanced=balanced).backward()
            gradients[balanced, len(contrasts[0])] = rows.grad
    same = torch.allclose(gradients[True, 9], gradients[True, 15], rtol=1e-9, atol=1e-12)
    assert same == (name != "sincere")
    assert not torch.allclose(gradients[False, 9], gradients[False, 15], rtol=1e-3)


@EACH_LOSS
def test_single_precision_is_as_near_to_the_truth_by_tiles_as_whole(name):
    z, y = batch(300, 60, 20, 5, dim=16)
    truth = expected_mean(loop(name, z, y, 0.1))
    for backend in ("dense", "tiled"):
        found = LOSSES[name](z.float(), y, temperature=0.1, class_balanced=True, backend=backend)
        assert found.item() == pytest.approx(truth, rel=2e-6)


def test_tight_classes_keep_the_digits_of_l_in():
    """Σ_N/Σ_A is some e^−11 here; a difference of derivatives near 1 would leave a handful of its digits."""
    corners = torch.eye(3, 8, dtype=torch.float64)
    y = torch.tensor([0] * 12 + [1] * 4 + [2] * 2)
    z = corners[y] + 1e-3 * torch.randn(18, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gradients = []
    for dtype in (torch.float64, torch.float32):
        rows = z.to(dtype, copy=True).requires_grad_()
        supcon_in(rows, y, temperature=0.07, class_balanced=True).backward()
        gradients.append(rows.grad.double())
    assert (gradients[1] - gradients[0]).abs().max() < 1e-5 * gradients[0].abs().max()


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_compiled_and_transformed_it_is_the_same(backend):
    z, y = batch(*SIZES)

    def value(rows):
        return SF.supcon(rows, y, class_balanced=True, backend=backend)

    torch.compiler.reset()
    plain = value(z)
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    assert compiled(z).item() == pytest.approx(plain.item(), rel=1e-10)
    rows = z.clone().requires_grad_()
    value(rows).backward()
    assert torch.allclose(torch.func.grad(value)(z), rows.grad, rtol=1e-10, atol=1e-14)
    stacked = torch.func.vmap(value)(torch.stack([z, 2 * z.flip(1)]))
    assert stacked.tolist() == pytest.approx([plain.item(), value(z.flip(1)).item()], rel=1e-10)


def test_spread_attracts_by_balanced_sincere():
    z, y = batch(8, 4, 2)
    views, labels = z.view(7, 2, 6), y[::2]
    found = [SF.spread(views, labels, alpha=alpha, class_balanced=True).item() for alpha in (0.0, ALPHA, 1.0)]
    assert found[0] == pytest.approx(SF.sincere(views, labels, class_balanced=True).item(), rel=1e-12)
    assert found[1] == pytest.approx((1 - ALPHA) * found[0] + ALPHA * found[2], rel=1e-12)
    assert found[2] == pytest.approx(SF.spread(views, labels, alpha=1.0).item(), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("counts", [(100, 100, 4, 4), (60, 12, 3, 2)])
def test_the_optimum_is_the_simplex_at_any_sizes(name, counts):
    """With both: as anchors and as contrasts. docs/theory.md proves it."""
    found = theory.sphere_optimum(name, counts=counts, reduction="class_mean", class_balanced=True, starts=4)
    assert found.is_simplex(2e-3)
    assert found.excess is not None
    assert -1e-9 < found.excess < 1e-6


@pytest.mark.parametrize("options", [{"class_balanced": True}, {"reduction": "class_mean"}])
def test_one_of_the_two_is_not_enough(options):
    found = theory.imbalance_optimum(("sincere",), ratios=(25,), **options)
    assert found.rows[0].minority_cosine > 0.4
    assert theory.sphere_optimum(counts=(9, 3), **options).floor is None


def test_cross_entropy_has_nothing_to_balance_and_no_bound():
    """Its optimum for classes of unequal size lies below its value at the simplex."""
    found = theory.sphere_optimum("cross_entropy", counts=(40, 2, 2), dim=2, **BALANCED)
    assert found.value < found.simplex_value
    assert found.floor is None
    assert theory.sphere_optimum("cross_entropy", counts=(4, 4), dim=2, **BALANCED).floor is not None


def test_no_arrangement_is_below_the_bound():
    """Points at random, unequal classes, each loss: the value at the simplex is a lower bound."""
    counts, generator = (12, 5, 2), torch.Generator().manual_seed(0)
    labels = torch.tensor([label for label, count in enumerate(counts) for _ in range(count)])
    options = {"temperature": 0.5, "reduction": "class_mean", "class_balanced": True}
    for name, loss in LOSSES.items():
        bound = simplex_value(name, counts, 0.5, "class_mean", class_balanced=True)
        for spread in (0.0, 0.05, 0.3, 3.0):
            for _ in range(20):
                centres = torch.randn(3, 3, generator=generator, dtype=torch.float64)
                noise = torch.randn(len(labels), 3, generator=generator, dtype=torch.float64)
                points = centres[labels] + spread * noise
                if name == "eps_supinfonce":
                    value = SF.eps_supinfonce(points, labels, **options)
                else:
                    value = loss(points, labels, **options)
                assert value.item() >= bound - 1e-12


BALANCED = {"class_balanced": True, "reduction": "class_mean"}


class TestWhileTraining:
    @pytest.mark.parametrize("name", ["sincere", "supcon", "eps_supinfonce", "decoupled"])
    @pytest.mark.parametrize("views", [1, 2])
    @pytest.mark.parametrize("counts", [(5, 2, 3), (4, 0, 1), (6,), (1, 1)])
    def test_the_floor_of_a_batch_is_its_loss_at_the_simplex(self, name, views, counts):
        own = {"epsilon": EPSILON} if name == "eps_supinfonce" else {}
        loss = LossConfig(name, options=BALANCED | own)
        present = [count for count in counts if count]
        labels = torch.tensor([label for label, count in enumerate(present) for _ in range(count * views)])
        corners = torch.eye(len(present), dtype=torch.float64)
        corners = corners - (1 / len(present) if len(present) > 1 else 0)
        truth = expected_mean(loop(name, corners[labels], labels, 0.1))
        assert batch_floor(loss, counts, views=views, temperature=0.1) == pytest.approx(truth, rel=1e-9, abs=1e-12)

    def test_there_is_one_with_the_mean_over_classes_alone(self):
        assert has_floor(LossConfig("supcon", options=BALANCED))
        assert not has_floor(LossConfig("supcon", options={"class_balanced": True}))
        assert not has_floor(LossConfig("supcon", options={"reduction": "class_mean"}))


Z, Y = batch(3, 2, 1)
HOT = torch.ones(6, 2, dtype=torch.int64)
REFUSED = {
    "several labels": lambda: SF.sincere(Z, HOT, class_balanced=True),
    "without a class": lambda: SF.sincere(Z, Y, class_balanced=True, ignored_as_negatives=True),
    "no labels": lambda: SF.infonce(Z.view(3, 2, 6), class_balanced=True),
    "soft labels": lambda: sincere.SoftLabelLoss(class_balanced=True),
    "numbers": lambda: sincere.RankNContrastLoss(class_balanced=True),
    "sets compete": lambda: sincere.SetLoss(class_balanced=True),
}


@pytest.mark.parametrize("words", REFUSED)
def test_where_there_are_no_classes_to_balance_it_is_refused(words):
    with pytest.raises(OptionError, match=words) as caught:
        REFUSED[words]()
    assert "class_balanced=True" in str(caught.value)
