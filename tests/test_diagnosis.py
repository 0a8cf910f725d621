"""diagnose: numbers against the losses and the oracle, mistakes in words."""

import math
from functools import partial

import numpy as np
import pytest
import torch

import oracles
import sincere
import sincere.functional as SF
from sincere import theory
from sincere.losses.floors import simplex_floors


def test_numbers_are_those_of_the_losses():
    z, labels = torch.randn(30, 4, dtype=torch.float64) * 3, torch.arange(30) % 4
    labels[7] = -1
    labels[11] = 9
    found = sincere.diagnose(z, labels, temperature=0.2)
    for name, reading in found.losses.items():
        form = {"form": "in"} if name == "supcon_in" else {}
        function = getattr(SF, "supcon" if form else name)
        assert reading.value == pytest.approx(function(z, labels, temperature=0.2, **form).item(), rel=1e-10), name
    assert found.class_counts == {0: 8, 1: 8, 2: 7, 3: 5, 9: 1}
    assert (found.unlabelled, found.anchors_without_positives, found.samples, found.dim) == (1, 1, 30, 4)
    norms = z.norm(dim=1)
    assert found.norms == pytest.approx((norms.min().item(), norms.mean().item(), norms.max().item()))
    truth = oracles.batch_from_labels(z.numpy(), labels.numpy(), 0.2)
    gradient = oracles.logit_gradient(truth, "supcon_out", np.ones(30))
    pairs = [gradient[t, p] for t, members in enumerate(truth.positives) for p in members]
    assert found.repulsion == pytest.approx(np.mean([g > 0 for g in pairs]))
    values = oracles.sincere(truth)
    anchors = [t for t in range(30) if labels[t] == 2]
    bound = np.mean([math.log(len(truth.negatives[t])) - values[t] for t in anchors])
    assert found.kl_bound[2] == pytest.approx(bound)
    assert 9 not in found.kl_bound


def test_the_set_loss_can_be_left_out():
    z, labels = torch.randn(30, 4), torch.arange(30) % 4
    without, full = sincere.diagnose(z, labels, set_loss=False), sincere.diagnose(z, labels)
    assert set(full.losses) - set(without.losses) == {"set_nce"}
    assert without.losses == {name: reading for name, reading in full.losses.items() if name != "set_nce"}


def test_floors_are_reached_at_the_simplex():
    labels = torch.arange(40) % 5
    found = sincere.diagnose((torch.eye(5) - 0.2)[labels].double(), labels, temperature=0.25)
    for name, reading in found.losses.items():
        assert reading.excess == pytest.approx(0, abs=1e-9), name
    assert not found.messages


@pytest.mark.parametrize("temperature", [0.05, 0.07, 0.1])
@pytest.mark.parametrize("members", [4, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_pushed_apart_at_the_simplex(dtype, members, temperature):
    """softmax = 1/(|P| + |N| e^{-g}) is below 1/|P| there, if only by what float32 does not see."""
    for classes in (5, 10):
        labels = torch.arange(classes).repeat_interleave(members)
        centres = torch.eye(classes, dtype=dtype) - 1 / classes
        found = sincere.diagnose(centres[labels], labels, temperature=temperature, set_loss=False)
        assert found.repulsion == 0


def test_autocast_changes_nothing():
    z, labels = torch.randn(30, 4), torch.arange(30) % 4
    with torch.autocast("cpu", torch.bfloat16):
        found = sincere.diagnose(z, labels)
    assert found == sincere.diagnose(z, labels)


@pytest.mark.parametrize(("k", "n"), [(1, 1), (2, 2), (3, 2), (2, 5)])
@pytest.mark.parametrize("gap", [0.3, 2.0])
def test_the_set_losss_floor_counts_every_exchange(k, n, gap):
    """A small gap, at which exchanging all members still weighs something; several sizes of class in one batch."""
    sizes = [(k, n), (4, 3), (6, 1)]
    floors = simplex_floors(*(torch.tensor(column) for column in zip(*sizes, strict=True)), gap, 0.0)["set_nce"]
    for found, (k, n) in zip(floors.tolist(), sizes, strict=True):
        ways = [math.comb(k, j) * math.comb(n, j) * math.exp(-j * gap) for j in range(min(k, n) + 1)]
        assert found == pytest.approx(math.log(sum(ways)) / k, rel=1e-12)


def test_floors_of_the_papers_batch():
    """CIFAR-10, 512 samples with two views: SupCon 4.62, SINCERE 0.014 at τ = 0.1."""
    labels = torch.arange(512) % 10
    found = sincere.diagnose(torch.randn(512, 2, 16), labels, temperature=0.1)
    assert found.losses["supcon"].floor == pytest.approx(4.62, abs=0.01)
    assert found.losses["sincere"].floor == pytest.approx(0.014, abs=0.001)


@pytest.mark.parametrize(
    ("embeddings", "labels", "words"),
    [
        (torch.randn(6, 3), [4] * 6, "a sampler that groups by label"),
        (torch.randn(6, 3), [0, 1, 2, 3, 4, 5], "no anchor has a positive"),
        (torch.randn(6, 3), [0, 0, 1, 1, 2, 3], "2 of 6 anchors have no positive"),
        (torch.randn(6, 3), [-1] * 6, "no sample is labelled"),
        (torch.zeros(0, 3), [], "empty"),
        (torch.zeros(6, 3), [0, 0, 1, 1, 2, 2], "zero"),
        (torch.full((6, 3), math.nan), [0, 0, 1, 1, 2, 2], "NaN"),
        (torch.ones(6, 3), [0, 0, 1, 1, 2, 2], "collapsed to one point"),
        (torch.ones(9, 3), [0, 0, 1, 1, 2, 2, -1, -1, -1], "log(n − 1) = 1.61"),
        (torch.randn(6, 3), [4, 4, 4, -1, -1, -1], "every labelled sample of this batch has class 4"),
        (torch.randn(12, 2), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], "do not fit a regular simplex in 2 dimensions"),
        ((torch.eye(3) - 1 / 3).repeat(8, 1) + 0.05 * torch.randn(24, 3), [0, 1, 2] * 8, "consider SINCERE"),
    ],
)
def test_mistakes_are_named(embeddings, labels, words):
    found = sincere.diagnose(embeddings, torch.tensor(labels, dtype=torch.int64))
    assert any(words in message for message in found.messages), found.messages
    assert words in str(found)


def test_it_is_a_frozen_record_that_reads_well():
    found = sincere.diagnose(torch.randn(20, 2, 8), torch.arange(20) % 4)
    with pytest.raises(AttributeError):
        found.samples = 3
    text = str(found)
    for word in ("40 embeddings", "4 classes", "sincere", "floor", "excess", "KL"):
        assert word in text
    assert max(map(len, text.splitlines())) < 130


def test_other_similarities_have_no_floor():
    z, labels = torch.randn(12, 3, dtype=torch.float64), torch.arange(12) % 3
    reading = sincere.diagnose(z, labels, similarity="euclidean", temperature=2.0).losses["sincere"]
    assert reading.floor is None
    expected = SF.sincere(z, labels, similarity="euclidean", temperature=2.0).item()
    assert reading.value == pytest.approx(expected, rel=1e-10)


def test_classes_that_are_apart_are_not_called_untrained():
    """SupCon's falling value passes log(n − 1) on its way, with every neighbour of the right class."""
    labels = torch.arange(64) % 2
    generator = torch.Generator().manual_seed(0)
    centres = torch.nn.functional.normalize(torch.randn(2, 8, generator=generator), dim=1)
    noise = torch.randn(64, 8, generator=generator)

    def at(spread):
        z = centres[labels] + spread * noise
        return sincere.diagnose(z, labels).losses["supcon"].value - math.log(63)

    low, high = 0.01, 0.6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) < 0 else (low, middle)
    assert abs(at(low)) < 1e-3, "it stands there"
    told = "tell nothing apart"
    assert not any(told in words for words in sincere.diagnose(centres[labels] + low * noise, labels).messages)
    assert any(told in words for words in sincere.diagnose(torch.ones(64, 8), labels).messages)
    nearly = torch.ones(64, 8) + 0.01 * noise
    assert any(told in words for words in sincere.diagnose(nearly, labels).messages)


def test_counts_and_bounds_read_as_sentences():
    labels = torch.arange(6) // 3
    collapsed = str(sincere.diagnose(torch.ones(6, 4), labels))
    assert "6 embeddings of dimension 4, 2 classes, 3 rows each\n" in collapsed
    assert " nats (below 0 it says nothing)" in collapsed
    apart = str(sincere.diagnose(torch.eye(4)[labels], labels))
    assert apart.splitlines()[-1].endswith(" nats")
    alone = str(sincere.diagnose(torch.ones(1, 4), labels[:1]))
    assert "1 embedding of dimension 4, 1 class, 1 row each\n" in alone
    assert "1 anchor without positives" in alone


def test_arrays_are_told_what_to_become():
    with pytest.raises(sincere.errors.InputError, match=r"got ndarray\. Use torch\.as_tensor"):
        sincere.diagnose(torch.ones(4, 2).numpy(), torch.arange(4))


def clusters(n, seed):
    """Three tight classes on the sphere, in any order."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.arange(n) % 3)[torch.randperm(n, generator=generator)]
    return torch.eye(3, 6)[labels] + 0.1 * torch.randn(n, 6, generator=generator), labels


ORDERS = "labels and embeddings in different orders"


def test_mean_cosines_are_those_of_all_pairs():
    z, labels = clusters(31, seed=0)
    labels[4], labels[9] = -1, 7
    found = sincere.diagnose(z, labels)
    unit, known = torch.nn.functional.normalize(z[labels >= 0].double(), dim=1), labels[labels >= 0]
    cosines, same = unit @ unit.T, known.unsqueeze(0) == known.unsqueeze(1)
    other = ~torch.eye(len(known), dtype=torch.bool)
    assert found.cosines.within == pytest.approx(cosines[same & other].mean().item(), abs=1e-6)
    assert found.cosines.between == pytest.approx(cosines[~same].mean().item(), abs=1e-6)
    assert f"mean cosine {found.cosines.within:.3f} within classes" in str(found)
    for alone in (torch.zeros(31, dtype=torch.int64), torch.arange(31)):
        assert sincere.diagnose(z, alone).cosines is None


def test_labels_in_another_order_are_noticed():
    """Shuffled labels of a good encoder, in nearly every draw; labels in order in none, however weak the encoder."""
    noticed = 0
    for seed in range(40):
        z, labels = clusters(60, seed)
        assert not any(ORDERS in message for message in sincere.diagnose(z, labels).messages)
        weak = z + 0.5 * torch.randn(60, 6, generator=torch.Generator().manual_seed(seed))
        assert not any(ORDERS in message for message in sincere.diagnose(weak, labels).messages)
        shuffled = labels[torch.randperm(60, generator=torch.Generator().manual_seed(100 + seed))]
        noticed += any(ORDERS in message for message in sincere.diagnose(z, shuffled).messages)
    assert 34 <= noticed <= 40  # one of twenty is expected to pass


def test_labels_in_another_order_are_noticed_where_samples_have_views():
    """Views of a sample are alike whatever its label is, so they prove nothing."""
    noticed = 0
    for seed in range(40):
        z, labels = clusters(60, seed)
        generator = torch.Generator().manual_seed(100 + seed)
        views = torch.stack([z, z + 0.01 * torch.randn(z.shape, generator=generator)], dim=1)
        assert not any(ORDERS in message for message in sincere.diagnose(views, labels).messages)
        shuffled = labels[torch.randperm(60, generator=generator)]
        noticed += any(ORDERS in message for message in sincere.diagnose(views, shuffled).messages)
        alone = sincere.diagnose(views, torch.arange(60))  # every sample a class of its own, as without labels
        assert not any(ORDERS in message for message in alone.messages)
    assert 34 <= noticed <= 40  # one of twenty is expected to pass


def test_views_that_stand_in_another_order_are_noticed():
    """Views one after the other, (v·b, d), that were taken for (b, v, d)."""
    z, labels = clusters(64, seed=3)
    views = torch.stack([z, z + 0.01 * torch.randn(z.shape)])  # all first views, then all second ones
    assert not any(ORDERS in message for message in sincere.diagnose(views.transpose(0, 1), labels).messages)
    assert any(ORDERS in message for message in sincere.diagnose(views.reshape(64, 2, 6), labels).messages)
    assert not any(ORDERS in message for message in sincere.diagnose(z[:15], labels[:15].flip(0)).messages), "too few"


def test_another_default_device_is_no_matter():
    z, labels = clusters(40, seed=5)
    shuffled = labels[torch.randperm(40, generator=torch.Generator().manual_seed(0))]
    with torch.device("meta"):
        assert any(ORDERS in message for message in sincere.diagnose(z, shuffled).messages)


CALLS = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "supcon_in": partial(SF.supcon, form="in"),
    "eps_supinfonce": SF.eps_supinfonce,
    "decoupled": SF.decoupled,
}


def test_classes_that_compete_alike_are_read_as_their_losses_are():
    torch.manual_seed(0)
    z, y = torch.randn(40, 6), torch.tensor([0] * 25 + [1] * 9 + [2] * 5 + [3])
    plain, found = sincere.diagnose(z, y), sincere.diagnose(z, y, class_balanced=True)
    assert list(found.losses) == list(CALLS)
    for name, call in CALLS.items():
        expected = call(z, y, temperature=0.1, class_balanced=True, reduction="class_mean").item()
        assert found.losses[name].value == pytest.approx(expected, rel=1e-5)
    assert "losses with class_balanced=True and the mean over classes:\n" in str(found)
    assert (found.repulsion, found.kl_bound, found.messages) == (plain.repulsion, plain.kl_bound, plain.messages)


def test_classes_that_compete_alike_reach_their_floors_at_the_simplex_whatever_their_sizes():
    labels = torch.tensor([0] * 30 + [1] * 7 + [2] * 2 + [3] * 2)
    corners = theory.simplex(4, 5).float()[labels]
    found = sincere.diagnose(corners, labels, temperature=0.5, class_balanced=True)
    for name, reading in found.losses.items():
        assert reading.excess == pytest.approx(0, abs=1e-5), name
    elsewhere = sincere.diagnose(corners + 0.3 * torch.randn(41, 5), labels, temperature=0.5, class_balanced=True)
    assert all(reading.excess > 1e-3 for reading in elsewhere.losses.values())


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2], [-1, -1, -1], [0, 0, -1]])
def test_classes_that_compete_alike_in_odd_batches(labels):
    found = sincere.diagnose(torch.eye(3), torch.tensor(labels), class_balanced=True)
    assert all(math.isfinite(reading.value) for reading in found.losses.values())
    assert found.losses["decoupled"].floor is None
    assert "nan" not in str(found)


def test_equal_embeddings_are_called_untrained_where_classes_compete_alike_too():
    found = sincere.diagnose(torch.ones(40, 4), torch.tensor([0] * 30 + [1] * 10), class_balanced=True)
    assert any("tell nothing apart" in message for message in found.messages)


def test_a_loss_without_negatives_reads_as_it_is_computed():
    z, y = torch.randn(4, 3), torch.zeros(4, dtype=torch.int64)
    assert sincere.diagnose(z, y).losses["decoupled"].value == SF.decoupled(z, y).item() == 0


@pytest.mark.parametrize(("classes", "fit"), [(4, True), (5, False)])
def test_as_many_classes_fit_a_simplex_as_it_has_corners(classes, fit):
    """Four in three dimensions, a tetrahedron's."""
    found = sincere.diagnose(torch.randn(2 * classes, 3), torch.arange(classes).repeat(2))
    assert any("do not fit a regular simplex" in message for message in found.messages) is not fit
