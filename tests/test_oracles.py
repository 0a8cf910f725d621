"""Every loss, backend and option against float64 loops written from the papers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles
import sincere.functional as SF
from loss_table import BACKENDS, LOSSES, REDUCTIONS, flat, rows_of
from sincere.losses.backends import class_layout, row_blocks

LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, -1, -1, 3, 3])
CONTRAST_LABELS = torch.tensor([0, 1, 4, -1, 2])


def batch(dtype=torch.float64, n=12, d=5):
    return torch.randn(n, d, dtype=dtype, requires_grad=True), torch.randn(5, d, dtype=dtype, requires_grad=True)


def chain_rule(gradient, z, c, temperature, similarity, offset):
    """∂L/∂z and ∂L/∂c from ∂L/∂s, for contrasts that are (batch, c), or c alone where offset is None."""
    contrasts = c if offset is None else np.concatenate([z, c]) if c is not None else z

    def unit(x):
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        return (x / norm, norm) if similarity == "cosine" else (x, np.ones_like(norm))

    (a, a_norm), (b, b_norm) = unit(z), unit(contrasts)
    g = gradient / temperature
    if similarity == "euclidean":  # s = −½‖a − b‖²: ∂s/∂a = b − a
        da = g @ b - g.sum(1, keepdims=True) * a
        db = g.T @ a - g.sum(0)[:, None] * b
    else:
        da, db = g @ b, g.T @ a
    if similarity == "cosine":  # the part along the row does nothing
        da = (da - (da * a).sum(1, keepdims=True) * a) / a_norm
        db = (db - (db * b).sum(1, keepdims=True) * b) / b_norm
    if offset is None:
        return da, db
    return da + db[: len(z)], db[len(z) :]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("contrasts", ["batch", "others", "batch and others"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_value_and_gradient(case, backend, contrasts, similarity):
    if case.needs_views and contrasts == "others":
        pytest.skip("the spread loss needs the anchor's other view among the contrasts, and refuses others alone")
    z, c = batch()
    embeddings, labels, views = rows_of(case, z, LABELS)
    options = {"temperature": 0.4, "similarity": similarity, "backend": backend}
    given_contrasts, truth_options = (), {}
    if contrasts != "batch":
        given_contrasts = (c, CONTRAST_LABELS)
        truth_options = {"contrast_z": c.detach().numpy(), "contrast_labels": CONTRAST_LABELS.numpy()}
    if contrasts == "batch and others":
        options["include_batch"] = truth_options["include_batch"] = True
    rows, row_labels = flat(embeddings, labels)
    truth = oracles.batch_from_labels(rows, row_labels, 0.4, similarity, **truth_options)
    values = case.truth(truth, views)
    loss = case.call(embeddings, labels, *given_contrasts, **options)
    assert loss.item() == pytest.approx(oracles.reduce(values, row_labels >= 0, row_labels, "mean"), rel=1e-11)

    loss.backward()
    valid = [value is not None for value in values]
    gradient = case.gradient(truth, np.array(valid) / sum(valid), views)
    others = None if contrasts == "batch" else c.detach().numpy()
    dz, dc = chain_rule(gradient, rows, others, 0.4, similarity, None if contrasts == "others" else 0)
    np.testing.assert_allclose(z.grad.numpy()[: len(dz)], dz, rtol=1e-9, atol=1e-12)
    if others is not None:
        np.testing.assert_allclose(c.grad.numpy(), dc, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_reductions_weights_and_unlabelled_samples(case, backend, reduction, weighted):
    z, _ = batch()
    embeddings, labels, views = rows_of(case, z, LABELS)
    rows, row_labels = flat(embeddings, labels)
    weights = torch.rand(len(labels), dtype=torch.float64) if weighted else None
    for as_negatives in (False, True):
        truth = oracles.batch_from_labels(rows, row_labels, 0.1, ignored_as_negatives=as_negatives)
        row_weights = None if weights is None else weights.repeat_interleave(views).numpy()
        expected = oracles.reduce(case.truth(truth, views), row_labels >= 0, row_labels, reduction, row_weights)
        loss = case.call(
            embeddings, labels, backend=backend, reduction=reduction, weights=weights, ignored_as_negatives=as_negatives
        )
        assert loss.shape == (embeddings.shape[:-1] if reduction == "none" else ())
        np.testing.assert_allclose(loss.detach().numpy().ravel(), np.ravel(expected), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("positives", ["any", "jaccard", "per_label"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_multi_hot_labels(case, backend, positives, reduction):
    if case.name == "set_nce" and positives != "any":
        pytest.skip("the set loss refuses degrees of membership: tests/test_errors.py")
    z, c = batch()
    hot = torch.randint(0, 2, (12, 4))
    hot[8] = -1
    embeddings, labels, views = rows_of(case, z, hot)
    rows, row_labels = flat(embeddings, labels)
    contrast_hot = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]])
    truth = oracles.batch_from_multihot(
        rows,
        row_labels,
        0.2,
        positives,
        contrast_z=c.detach().numpy(),
        contrast_labels=contrast_hot.numpy(),
        include_batch=True,
    )
    expected = oracles.reduce(case.truth(truth, views), row_labels.min(1) >= 0, row_labels, reduction)
    loss = case.call(
        embeddings, labels, c, contrast_hot,
        temperature=0.2, positives=positives, backend=backend, reduction=reduction, include_batch=True,
    )  # fmt: skip
    np.testing.assert_allclose(loss.detach().numpy().ravel(), np.ravel(expected), rtol=1e-11, atol=1e-13)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss.sum(), (z, c)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("positives", ["any", "jaccard", "per_label"])
def test_multi_hot_labels_of_samples_without_any(positives, backend):
    """Two that carry no label share none: each is a negative of the other, whether or not the batch is contrasted."""
    z, c = batch()
    hot, contrast_hot = torch.randint(0, 2, (12, 4)), torch.randint(0, 2, (5, 4))
    hot[2] = hot[9] = contrast_hot[1] = 0
    sides = {"contrast_z": c.detach().numpy(), "contrast_labels": contrast_hot.numpy()}
    for given_contrasts, more in (((), {}), ((c, contrast_hot), sides)):
        truth = oracles.batch_from_multihot(z.detach().numpy(), hot.numpy(), 0.2, positives, **more)
        values = oracles.sincere(truth)
        assert values[2] is values[9] is None
        loss = SF.sincere(z, hot, *given_contrasts, temperature=0.2, positives=positives, backend=backend)
        assert loss.item() == pytest.approx(oracles.reduce(values, [True] * 12, None, "mean"), rel=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
def test_per_label_is_the_mean_over_labels_of_each_labels_own_loss(backend):
    """Zhang and Wu 2024 (MulSupCon): every label of every anchor counts alike, which weights by |y| give. SINCERE the
    same way, but no positive of another label in a denominator."""
    generator = np.random.default_rng(0)
    z = generator.normal(size=(20, 6))
    s = oracles.similarity_matrix(z, z, "cosine") / 0.2
    hot = generator.random((20, 5)) < 0.4
    hot[:, 4] = False
    hot[3], hot[3, 4] = False, True  # a label that nobody else has: no anchor of it
    supcon, sincere = [], []
    for t, label in zip(*hot.nonzero(), strict=True):
        members = [p for p in range(20) if p != t and hot[p, label]]
        if not members:
            continue
        everybody = sum(math.exp(s[t, a]) for a in range(20) if a != t)
        strangers = sum(math.exp(s[t, a]) for a in range(20) if a != t and not (hot[a] & hot[t]).any())
        supcon.append(sum(math.log(everybody) - s[t, p] for p in members) / len(members))
        sincere.append(sum(math.log(math.exp(s[t, p]) + strangers) - s[t, p] for p in members) / len(members))
    options = {"positives": "per_label", "temperature": 0.2, "backend": backend, "weights": torch.tensor(hot.sum(1))}
    rows, tags = torch.tensor(z), torch.tensor(hot)
    assert SF.supcon(rows, tags, **options).item() == pytest.approx(np.mean(supcon), rel=1e-12)
    assert SF.sincere(rows, tags, **options).item() == pytest.approx(np.mean(sincere), rel=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_soft_labels(backend, reduction):
    z, c = batch()
    soft = torch.rand(12, 4, dtype=torch.float64).softmax(1)
    soft[3], soft[5] = -1, torch.tensor([0, 1, 0, 0])
    contrast_soft = torch.rand(5, 4, dtype=torch.float64)
    truth = oracles.batch_from_soft(
        z.detach().numpy(), soft.numpy(), 0.2,
        contrast_z=c.detach().numpy(), contrast_labels=contrast_soft.numpy(), include_batch=True,
    )  # fmt: skip
    membership = soft.numpy() / np.linalg.norm(soft.numpy(), axis=1, keepdims=True)
    expected = oracles.reduce(oracles.soft_label(truth), soft.numpy().min(1) >= 0, membership, reduction)
    loss = SF.soft_label(
        z, soft, c, contrast_soft, temperature=0.2, backend=backend, reduction=reduction, include_batch=True
    )
    np.testing.assert_allclose(loss.detach().numpy().ravel(), np.ravel(expected), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("as_negatives", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_beside_a_negative_mark_make_no_positive(backend, as_negatives):
    """A row with a negative entry is unlabelled whatever else it holds: a negative of everybody, or left out."""
    z, c = batch()
    hot, contrast_hot = torch.randint(0, 2, (12, 3)), torch.randint(0, 2, (5, 3))
    hot[4], hot[7], contrast_hot[2] = (torch.tensor(row) for row in ([-1, 1, 1], [1, 1, -1], [1, -1, 1]))
    sides = {"contrast_z": c.detach().numpy(), "include_batch": True, "ignored_as_negatives": as_negatives}
    options = {"temperature": 0.2, "backend": backend, "include_batch": True, "ignored_as_negatives": as_negatives}
    for case in (case for case in LOSSES if not case.needs_views):
        truth = oracles.batch_from_multihot(
            z.detach().numpy(), hot.numpy(), 0.2, contrast_labels=contrast_hot.numpy(), **sides
        )
        expected = oracles.reduce(case.truth(truth, 1), hot.numpy().min(1) >= 0, hot.numpy(), "mean")
        assert case.call(z, hot, c, contrast_hot, **options).item() == pytest.approx(expected, rel=1e-11), case
    soft, contrast_soft = hot.double() * 0.4, contrast_hot.double() * 0.4
    truth = oracles.batch_from_soft(z.detach().numpy(), soft.numpy(), 0.2, contrast_labels=contrast_soft, **sides)
    expected = oracles.reduce(oracles.soft_label(truth), soft.numpy().min(1) >= 0, None, "mean")
    assert SF.soft_label(z, soft, c, contrast_soft, **options).item() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_contrasts_of_a_higher_precision(backend, reduction):
    z, c = batch()
    hot, contrast_hot = torch.randint(0, 2, (12, 4)), torch.randint(0, 2, (5, 4))
    rows = z.detach().float()
    truth = oracles.batch_from_multihot(
        rows.double().numpy(), hot.numpy(), 0.2, contrast_z=c.detach().numpy(), contrast_labels=contrast_hot.numpy()
    )
    expected = oracles.reduce(oracles.sincere(truth), [True] * 12, hot.numpy(), reduction)
    loss = SF.sincere(rows, hot, c, contrast_hot, temperature=0.2, backend=backend, reduction=reduction)
    assert loss.dtype == torch.float64
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("targets", ["classes", "pairs"])
def test_soft_labels_that_are_no_numbers_show(targets, backend):
    """A teacher that overflowed, or 0/0 in a pair's weight: without a word every anchor would carry no loss."""
    labels = torch.rand(6, 6)
    labels[2, 3] = torch.nan
    values = SF.soft_label(torch.randn(6, 3), labels, targets=targets, backend=backend, reduction="none")
    assert values[2].isnan()
    assert SF.soft_label(torch.randn(6, 3), labels, targets=targets, backend=backend).isnan()


@pytest.mark.parametrize("backend", BACKENDS)
def test_pair_weights(backend):
    z, _ = batch()
    weights = torch.rand(12, 12, dtype=torch.float64) * (torch.rand(12, 12) > 0.5)
    weights[2] = 0
    truth = oracles.batch_from_pair_weights(z.detach().numpy(), weights.numpy(), 0.3)
    values = oracles.soft_label(truth)
    loss = SF.soft_label(z, weights, targets="pairs", temperature=0.3, backend=backend)
    assert loss.item() == pytest.approx(oracles.reduce(values, [True] * 12, None, "mean"), rel=1e-11)
    views = SF.soft_label(z.view(6, 2, 5), weights[:6, :6], targets="pairs", temperature=0.3, backend=backend)
    repeated = weights[:6, :6].repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert views.item() == pytest.approx(SF.soft_label(z, repeated, targets="pairs", temperature=0.3).item(), rel=1e-12)


@st.composite
def batches(draw):
    """Shapes, labels, temperatures from 1e-3 to 1e3, norms and duplicates as they come."""
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    z = torch.randn(n, d, dtype=torch.float64, generator=generator)
    z = z * 10 ** draw(st.floats(-3, 3))
    if n > 1 and draw(st.booleans()):
        z[n // 2] = z[0]
    if draw(st.booleans()):
        z[-1] = 0
    labels = torch.tensor(draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)))
    return z, labels, 10 ** draw(st.floats(-3, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", LOSSES, ids=repr)
@given(drawn=batches())
def test_any_batch(case, dtype, drawn):
    z, labels, temperature = drawn
    z = z.to(dtype).requires_grad_()
    embeddings, labels, views = rows_of(case, z, labels)
    rows, row_labels = flat(embeddings, labels)
    values = case.truth(oracles.batch_from_labels(rows, row_labels, temperature), views)
    expected = oracles.reduce(values, row_labels >= 0, row_labels, "mean")
    largest = gradient_size(case, embeddings, labels, temperature)
    for backend in BACKENDS:
        loss = case.call(embeddings, labels, temperature=temperature, backend=backend)
        (gradient,) = torch.autograd.grad(loss, z)
        # A logit is as large as 1/τ and carries its rounding error into the value; half precision works in float32.
        eps = torch.finfo(loss.dtype).eps
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert loss.item() == pytest.approx(expected, rel=100 * eps, abs=100 * eps * (1 + 1 / temperature)), backend
        assert torch.isfinite(gradient).all() or largest > torch.finfo(dtype).max, backend


def gradient_size(case, embeddings, labels, temperature):
    """The largest entry of the gradient in float64: float16 cannot hold that of a short vector at a low temperature."""
    z = embeddings.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(case.call(z, labels, temperature=temperature), z)
    assert torch.isfinite(gradient).all()
    return gradient.abs().max().item() if gradient.numel() else 0.0


@pytest.mark.parametrize("classes", [1, 2, 5, 40, 400])
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_many_small_blocks_agree_with_dense(case, classes, monkeypatch):
    """Tiles at every kind of boundary: classes cut into pieces, blocks of many classes, groups of classes."""
    monkeypatch.setattr(class_layout, "BLOCK", 16)
    monkeypatch.setattr(class_layout, "LOGITS_PER_GROUP", 64)
    monkeypatch.setattr(row_blocks, "LOGITS_PER_BLOCK", 500)
    z = torch.randn(90, 6, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, classes, (90,)) - (torch.rand(90) < 0.05).long() * 1000
    embeddings, labels, _ = rows_of(case, z, labels)
    for temperature in (0.1, 0.01):
        results = []
        for backend in BACKENDS:
            scale = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
            loss = case.call(embeddings, labels, temperature=scale, backend=backend, ignore_label=-1000)
            results.append((loss.detach(), *torch.autograd.grad(loss, (z, scale))))
        for dense, tiled in zip(*results, strict=True):
            torch.testing.assert_close(tiled, dense, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_a_few_long_rows_among_many_short_ones(case, backend):
    """Their logits reach 900, whose exponential no float32 holds; those of nearly all others lie below 1."""
    rows = 0.2 * torch.nn.functional.normalize(torch.randn(160, 5), dim=1)
    rows[[0, 1, 2, 3]] = 30 * torch.nn.functional.normalize(torch.ones(4, 5) + 0.1 * rows[:4], dim=1)
    labels = torch.arange(160) // 2 % 40  # of the long rows two are of one class, and two of another
    embeddings, labels, views = rows_of(case, rows.requires_grad_(), labels)
    row_labels = flat(embeddings, labels)[1]
    truth = oracles.batch_from_labels(rows.detach().double().numpy(), row_labels, 1.0, "dot")
    expected = oracles.reduce(case.truth(truth, views), row_labels >= 0, row_labels, "mean")
    loss = case.call(embeddings, labels, temperature=1.0, similarity="dot", backend=backend)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert torch.isfinite(torch.autograd.grad(loss, rows)[0]).all()
