"""What is true of every loss: symmetries, named edge batches, identities, closed forms, golden numbers.

tests/test_gpu.py runs all of it once more, on a GPU.
"""

import math

import pytest
import torch

import sincere.functional as SF
from loss_table import LOSSES, rows_of
from places import ON_CPU
from sincere.losses.floors import simplex_floors, simplex_gap


@pytest.fixture(params=ON_CPU, ids=repr)
def place(request):
    return request.param


def draw(case, place, n=12, d=4, classes=3):
    return rows_of(case, place.randn(n, d), place.labels(torch.arange(n) // 2 % classes))


every_loss = pytest.mark.parametrize("case", LOSSES, ids=repr)


@every_loss
class TestSymmetries:
    def test_order_of_samples(self, case, place):
        z, labels, _ = draw(case, place)
        order = place.labels(torch.randperm(z.shape[0]))
        per_anchor = place.loss(case, z, labels, reduction="none")
        place.assert_same(place.loss(case, z[order], labels[order], reduction="none"), per_anchor[order])

    def test_names_of_classes(self, case, place):
        z, labels, _ = draw(case, place)
        renamed = place.labels([907, -55, 10**12])[labels]
        place.assert_same(place.loss(case, z, renamed), place.loss(case, z, labels))

    @pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
    def test_rotation(self, case, place, similarity):
        z, labels, _ = draw(case, place)
        rotation = place.put(torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0])
        options = {"similarity": similarity, "temperature": 0.5}
        place.assert_same(place.loss(case, z @ rotation, labels, **options), place.loss(case, z, labels, **options))

    def test_scale_of_embeddings(self, case, place):
        z, labels, _ = draw(case, place)
        scales = place.rand(*z.shape[:-1], 1) * 9 + 0.1
        place.assert_same(place.loss(case, z * scales, labels), place.loss(case, z, labels))

    def test_order_of_views(self, case, place):
        z, labels = place.randn(6, 3, 4), place.labels([0, 0, 1, 1, 2, 2])
        place.assert_same(place.loss(case, z.flip(1), labels), place.loss(case, z, labels))

    def test_views_are_folded_samples(self, case, place):
        if case.needs_views:
            pytest.skip("this loss tells views from other members of a class")
        z, labels = place.randn(6, 2, 4), place.labels([0, 0, 1, 1, 2, 2])
        folded = place.loss(case, z.flatten(0, 1), labels.repeat_interleave(2))
        place.assert_same(place.loss(case, z, labels), folded)

    def test_contrasts_equal_to_the_batch_add_the_anchor_itself(self, case, place):
        """Given contrasts are all others: nobody is left out as oneself, so each anchor gains itself as a positive."""
        if case.needs_views:
            pytest.skip("this loss refuses contrasts without the batch")
        z, labels, _ = draw(case, place)
        with_copy = place.loss(case, z, labels, z.clone(), labels, reduction="none")
        assert not torch.allclose(with_copy, place.loss(case, z, labels, reduction="none"))

    def test_weights_scale_does_not_matter_to_a_mean(self, case, place):
        z, labels, _ = draw(case, place)
        weights = place.rand(len(labels)) + 0.1
        for reduction in ("mean", "mean_all", "class_mean"):
            a = place.loss(case, z, labels, weights=weights, reduction=reduction)
            for factor in (7, 0.01):  # totals of a class on either side of 1
                scaled = place.loss(case, z, labels, weights=weights * factor, reduction=reduction)
                place.assert_same(scaled, a)

    def test_weight_zero_is_no_anchor_but_a_contrast(self, case, place):
        z, labels, _ = draw(case, place)
        weights = place.put(torch.ones(len(labels)))
        weights[0] = 0
        per_anchor = place.loss(case, z, labels, reduction="none")
        place.assert_same(place.loss(case, z, labels, weights=weights), per_anchor[1:].mean())


EDGES = {
    "balanced": (torch.randn(12, 4, generator=torch.Generator().manual_seed(3)), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]),
    "singletons": (torch.randn(6, 4, generator=torch.Generator().manual_seed(3)), [0, 0, 1, 1, 2, 3]),
    "one class": (torch.randn(6, 4, generator=torch.Generator().manual_seed(3)), [5] * 6),
    "no positives": (torch.randn(4, 4, generator=torch.Generator().manual_seed(3)), [0, 1, 2, 3]),
    "nobody labelled": (torch.randn(4, 4, generator=torch.Generator().manual_seed(3)), [-1] * 4),
    "one sample": (torch.randn(2, 4, generator=torch.Generator().manual_seed(3))[:1], [0]),
    "empty": (torch.zeros(0, 4), []),
    "duplicates": (torch.ones(6, 4), [0, 0, 0, 1, 1, 1]),
    "zero vectors": (torch.zeros(6, 4), [0, 0, 0, 1, 1, 1]),
    "one zero vector": (torch.eye(6, 4), [0, 0, 1, 1, 2, 2]),
    "large norms": (torch.randn(6, 4, generator=torch.Generator().manual_seed(3)) * 1e30, [0, 0, 1, 1, 2, 2]),
    "small norms": (torch.randn(6, 4, generator=torch.Generator().manual_seed(3)) * 1e-30, [0, 0, 1, 1, 2, 2]),
    "opposite positives": (torch.tensor([[1.0], [-1], [1], [-1]]), [0, 0, 1, 1]),
}


@pytest.mark.parametrize("temperature", [1e-3, 0.005, 0.1, 1e3])
@pytest.mark.parametrize("edge", EDGES)
@every_loss
def test_edge_batches_are_finite(case, place, edge, temperature):
    rows, labels = EDGES[edge]
    for dtype in place.dtypes:
        z, classes, _ = rows_of(case, place.put(rows).to(dtype), place.labels(labels))
        z.requires_grad_()
        for reduction in place.reductions:
            loss = place.loss(case, z, classes, temperature=temperature, reduction=reduction)
            (gradient,) = torch.autograd.grad(loss.sum(), z)
            assert torch.isfinite(loss).all()
            # The true gradient of a vector of length 1e-30 is some 1e30/τ, which float32 can only just hold, or not.
            assert torch.isfinite(gradient).all() or (
                edge == "small norms" and dtype == torch.float32 and temperature < 0.01
            )


@every_loss
class TestKnownValues:
    def test_no_positives_is_zero_and_still_differentiable(self, case, place):
        if case.needs_views:
            pytest.skip("with views every anchor has a positive")
        for edge in ("no positives", "nobody labelled", "one sample", "empty"):
            rows, labels = EDGES[edge]
            z = place.put(rows).requires_grad_()
            loss = place.loss(case, z, place.labels(labels))
            loss.backward()
            assert loss.item() == 0
            assert z.grad is not None
            assert not z.grad.any()

    def test_one_class(self, case, place):
        if case.name in ("supcon", "supcon_in", "spread"):
            pytest.skip("positives compete with each other in this loss, so one class is not nothing")
        z = place.randn(6, 4).requires_grad_()
        loss = place.loss(case, z, place.labels([0] * 6))
        loss.backward()
        assert loss.item() == place.about(case.margin_at_one_class)
        assert not z.grad.any()

    def test_regular_simplex_has_the_floor(self, case, place):
        if case.needs_views:
            pytest.skip("the spread loss is not at its best at the simplex: it keeps members apart")
        classes, members, temperature = 4, 3, 0.3
        centres = torch.eye(classes, dtype=torch.float64) - 1 / classes
        labels = torch.arange(classes).repeat_interleave(members)
        loss = place.loss(case, place.put(centres[labels]), place.labels(labels), temperature=temperature)
        counts = torch.tensor([members - 1]), torch.tensor([(classes - 1) * members])
        floors = simplex_floors(*counts, simplex_gap(classes, temperature), 0.3)
        assert loss.item() == place.about(floors[case.name].item())

    def test_identical_embeddings(self, case, place):
        """All logits equal: SINCERE log(1+|N|), SupCon log(|P|+|N|), the set loss log C(|A|, k)/k."""
        n, members = 12, 4
        p, others = members - 1, n - members
        expected = {
            "sincere": math.log(1 + others),
            "supcon": math.log(p + others),
            "supcon_in": math.log(p + others),
            "eps_supinfonce": math.log(math.exp(-0.3) + others),
            "decoupled": math.log(others),
            "set_nce": math.log(math.comb(n - 1, p)) / p,
            "spread": 0.6 * math.log(1 + others) + 0.4 * math.log(p),
        }
        z, labels, _ = rows_of(case, place.put(torch.ones(n, 4)), place.labels(torch.arange(n) // members))
        assert place.loss(case, z, labels).item() == place.about(expected[case.name])

    def test_hardest_positives_do_not_saturate(self, case, place):
        """Cosine −1 at τ = 0.005: the positive's logit is −200, the other class's 200."""
        if case.needs_views:
            pytest.skip("the value depends on which row is whose view")
        z = torch.tensor([[1.0], [-1], [1], [-1]], device=place.device, requires_grad=True)
        loss = place.loss(case, z, place.labels([0, 0, 1, 1]), temperature=0.005, reduction="none")
        assert loss.min().item() == pytest.approx(400, rel=1e-5)


class TestIdentities:
    def test_one_positive_makes_all_losses_infonce(self, place):
        z = place.randn(6, 2, 5)
        expected = SF.infonce(z, backend=place.backend)
        labels = place.labels(torch.arange(6))
        for case in filter(place.takes, LOSSES):
            if case.name in ("eps_supinfonce", "decoupled"):
                continue  # a margin, and a denominator without the positive: they differ even then
            scale = 0.6 if case.name == "spread" else 1  # its second term is 0 with one positive
            place.assert_same(place.loss(case, z, labels), scale * expected)

    def test_epsilon_zero_and_alpha_zero_are_sincere(self, place):
        z, labels = place.randn(6, 2, 5), place.labels([0, 0, 1, 1, 1, 2])
        expected = SF.sincere(z, labels, backend=place.backend)
        place.assert_same(SF.eps_supinfonce(z, labels, epsilon=0.0, backend=place.backend), expected)
        place.assert_same(SF.spread(z, labels, alpha=0.0, backend=place.backend), expected)

    def test_one_hot_soft_and_pair_labels_are_supcon(self, place):
        if place.knows_classes_only:
            pytest.skip("no kernels for these labels")
        z, labels = place.randn(10, 5), place.labels(torch.arange(10) % 4)
        expected = SF.supcon(z, labels, backend=place.backend)
        place.assert_same(SF.soft_label(z, place.put(torch.eye(4))[labels], backend=place.backend), expected)
        pairs = place.put(labels[:, None] == labels) * 3
        place.assert_same(SF.soft_label(z, pairs, targets="pairs", backend=place.backend), expected)

    def test_one_hot_multi_labels_are_classes(self, place):
        if place.knows_classes_only:
            pytest.skip("no kernels for these labels")
        z, labels = place.randn(10, 5), place.labels(torch.arange(10) % 4)
        hot = place.labels(torch.eye(4))[labels]
        for case in LOSSES[:-1]:
            for positives in ("any", "jaccard", "per_label") if case.name != "set_nce" else ("any",):
                place.assert_same(place.loss(case, z, hot, positives=positives), place.loss(case, z, labels))
                by_class = place.loss(case, z, hot, positives=positives, reduction="class_mean")
                place.assert_same(by_class, place.loss(case, z, labels, reduction="class_mean"))

    def test_a_mean_per_label_weighs_anchors_within_it(self, place):
        """Several labels each: every label's weighted mean over its anchors, then the mean of those, by a loop."""
        if place.knows_classes_only:
            pytest.skip("no kernels for these labels")
        z, weights = place.randn(6, 5), place.rand(6) + 0.1
        hot = place.labels([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]])
        values = SF.sincere(z, hot, reduction="none", backend=place.backend)
        for scale in (1, 0.01):  # totals of a label on either side of 1
            given = weights * scale
            by_label = [(given * values)[mine].sum() / given[mine].sum() for mine in (hot > 0).T]
            found = SF.sincere(z, hot, weights=given, reduction="class_mean", backend=place.backend)
            place.assert_same(found, sum(by_label) / 3)

    def test_finite_batches_pass_the_check_that_they_are(self, place):
        z, labels = place.randn(6, 3), place.labels([0, 0, 1, 1, 2, 2])
        plain, contrasted = (SF.sincere(z, labels, *more, backend=place.backend) for more in ((), (z + 1, labels)))
        place.assert_same(SF.sincere(z, labels, check_finite=True, backend=place.backend), plain)
        checked = SF.sincere(z, labels, z + 1, labels, check_finite=True, backend=place.backend)
        place.assert_same(checked, contrasted)

    def test_infonce_with_paired_contrasts_and_a_queue(self, place):
        """Momentum contrast: softmax over one key and the queue, straight from the formula."""
        z, keys = place.randn(4, 5), place.randn(9, 5)
        unit = torch.nn.functional.normalize
        logits = unit(z, dim=1) @ unit(keys, dim=1).T / 0.2
        expected = torch.nn.functional.cross_entropy(logits, place.labels(torch.arange(4)))
        place.assert_same(SF.infonce(z, keys, temperature=0.2, backend=place.backend), expected)

    def test_batch_against_itself_as_contrasts_with_include_batch_of_nothing(self, place):
        z, labels = place.randn(6, 3), place.labels([0, 0, 1, 1, 2, 2])
        nothing = place.randn(0, 3), place.labels([])
        for case in filter(place.takes, LOSSES[:-1]):
            joined = place.loss(case, z, labels, *nothing, include_batch=True)
            place.assert_same(joined, place.loss(case, z, labels))
            assert place.loss(case, z, labels, *nothing).item() == 0


def golden_batch():
    torch.manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(12, 8), dim=1).double()


class TestGoldenNumbers:
    """Computed by several independent implementations on one batch; see the table of peers in docs/losses.md."""

    def test_three_classes_of_four(self, place):
        z, labels = place.put(golden_batch()), place.labels([0] * 4 + [1] * 4 + [2] * 4)
        for call, expected in [
            (SF.supcon, 5.443608),
            (SF.sincere, 4.469832),
            (lambda *a, **k: SF.supcon(*a, form="in", **k), 2.971622),
            (SF.decoupled, 3.912503),
        ]:
            assert call(z, labels, backend=place.backend).item() == place.about(expected, 1e-6)
            in_views = call(z.view(6, 2, 8), labels[::2], backend=place.backend)
            assert in_views.item() == place.about(expected, 1e-6)

    def test_unequal_classes(self, place):
        z, labels = place.put(golden_batch()), place.labels([0] * 6 + [1] * 3 + [2] * 2 + [3])
        for call, reduction, expected in [
            (SF.supcon, "mean", 4.920763),
            (SF.supcon, "mean_all", 4.510700),
            (SF.sincere, "mean", 3.610093),
            (SF.sincere, "mean_all", 3.309252),
        ]:
            loss = call(z, labels, backend=place.backend, reduction=reduction)
            assert loss.item() == place.about(expected, 1e-6)

    def test_untrained_network(self, place):
        """512 samples with two views and nothing learned: every loss is near ln 1023 = 6.93 (SINCERE's Table 1)."""
        z = (torch.randn(512, 2, 128) * 0.05 + torch.randn(128)).to(place.device)
        labels = place.labels(torch.arange(512) % 10)
        assert SF.supcon(z, labels, backend=place.backend).item() == pytest.approx(math.log(1023), abs=0.05)
        assert SF.sincere(z, labels, backend=place.backend).item() == pytest.approx(math.log(1 + 922), abs=0.05)


def test_second_batch_of_the_same_size_uses_its_own_labels():
    """A mask remembered by batch size is a fault found in the wild."""
    z = golden_batch()
    first = SF.supcon(z, torch.arange(12) // 4)
    second = SF.supcon(z, torch.arange(12) % 3)
    assert abs(first.item() - second.item()) > 0.1


def test_similarity_of_the_callers_own():
    def negative_manhattan(a, c):
        return -torch.cdist(a, c, p=1)

    z, labels = torch.randn(8, 3, dtype=torch.float64, requires_grad=True), torch.arange(8) % 3
    queue = torch.randn(5, 3, dtype=torch.float64), torch.arange(5)
    for case in LOSSES:
        embeddings, classes, _ = rows_of(case, z, labels)
        options = {"temperature": 0.7, "include_batch": True}
        loss = case.call(embeddings, classes, *queue, similarity=negative_manhattan, **options)
        assert torch.autograd.grad(loss, z)[0].any()
        by_dot = case.call(embeddings, classes, *queue, similarity=lambda a, c: a @ c.T, **options)
        plain = case.call(embeddings, classes, *queue, similarity="dot", **options)
        torch.testing.assert_close(by_dot, plain, rtol=1e-10, atol=1e-12)


def test_the_spread_loss_takes_a_similarity_that_looks_at_the_batch():
    """s_tt' is the matrix's own entry: a similarity that centres its batches gives others for a part of them."""

    def centred(a, c):
        return (a - c.mean(dim=0)) @ (c - c.mean(dim=0)).T

    views = torch.randn(5, 2, 3, dtype=torch.float64) + 3 * torch.arange(2).view(1, 2, 1)
    labels = torch.tensor([0, 0, 1, 1, 2])
    rows, classes = views.flatten(0, 1), labels.repeat_interleave(2).tolist()
    s = centred(rows, rows) / 0.4
    values = []
    for t in range(10):
        positives = [p for p in range(10) if p != t and classes[p] == classes[t]]
        negatives = s[t, [j for j in range(10) if classes[j] != classes[t]]].logsumexp(0)
        sincere_term = sum(torch.logaddexp(s[t, p], negatives) - s[t, p] for p in positives) / len(positives)
        values.append(0.7 * sincere_term + 0.3 * (s[t, positives].logsumexp(0) - s[t, t ^ 1]))
    found = SF.spread(views, labels, alpha=0.3, temperature=0.4, similarity=centred)
    torch.testing.assert_close(found, torch.stack(values).mean())
    queue = torch.randn(4, 3, dtype=torch.float64)
    queued = SF.spread(views, labels, queue, torch.arange(4), include_batch=True, similarity=lambda a, c: a @ c.T)
    torch.testing.assert_close(
        queued, SF.spread(views, labels, queue, torch.arange(4), include_batch=True, similarity="dot")
    )
