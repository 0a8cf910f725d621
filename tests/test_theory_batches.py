"""SupCon over all batches: enumeration against the formula, and minimisers of single batches."""

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sincere.functional as SF
from sincere import theory
from sincere.errors import OptionError

CHOOSE = {"sets": combinations, "multisets": combinations_with_replacement}


def supcon_sum(z, y, batch, temperature, draw):
    """Graf et al.'s L_SC as it stands, batch by batch and anchor by anchor."""
    total = 0.0
    for members in CHOOSE[draw](range(len(y)), batch):
        for place, i in enumerate(members):
            others = [k for other, k in enumerate(members) if other != place]
            positives = [j for j in others if y[j] == y[i]]
            if positives:
                log_bottom = math.log(sum(math.exp(z[i] @ z[k] / temperature) for k in others))
                total += sum(log_bottom - z[i] @ z[j] / temperature for j in positives) / len(positives)
    return total


@pytest.mark.parametrize("draw", ["sets", "multisets"])
@pytest.mark.parametrize(
    ("members", "classes", "batch", "temperature"), [(3, 3, 4, 1.0), (2, 3, 3, 0.1), (4, 2, 5, 0.5)]
)
def test_bound_is_the_sum_at_the_simplex_and_below_it_elsewhere(draw, members, classes, batch, temperature):
    counts = (members,) * classes
    y = np.repeat(np.arange(classes), members)
    bound = theory.supcon_bound_over_batches(counts, batch, temperature=temperature, draw=draw)
    corners = theory.simplex(classes, 3).numpy()[y]
    assert supcon_sum(corners, y, batch, temperature, draw) == pytest.approx(bound, rel=1e-9)
    rng = np.random.default_rng(0)
    for noise in (0.1, 1.0, 10.0):
        z = corners + noise * rng.normal(size=corners.shape)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        loop = supcon_sum(z, y, batch, temperature, draw)
        ours = theory.supcon_sum(torch.from_numpy(z), counts, batch, temperature=temperature, draw=draw)
        assert ours == pytest.approx(loop, rel=1e-9)
        assert loop > bound


@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    batch=st.integers(2, 4),
    draw=st.sampled_from(["sets", "multisets"]),
)
@settings(max_examples=30, deadline=None)
def test_pairs_of_batch_and_class_are_counted_right(counts, batch, draw):
    y = np.repeat(np.arange(len(counts)), counts)
    if batch > len(y):
        return
    found = Counter()
    for members in CHOOSE[draw](range(len(y)), batch):
        found.update(int((y[list(members)] == c).sum()) for c in range(len(counts)))
    assert theory.pairs_with_members(counts, batch, draw) == tuple(found[size] for size in range(batch + 1))
    assert theory.number_of_batches(len(y), batch, draw) == len(list(CHOOSE[draw](range(len(y)), batch)))


def test_one_batch_is_the_library_loss():
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(9, 3, dtype=torch.float64, generator=generator), dim=1)
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    ours = theory.supcon_over_batches(z, y, torch.arange(9).unsqueeze(0), temperature=0.2)
    assert float(ours) == pytest.approx(float(SF.supcon(z, y, temperature=0.2, reduction="sum")), rel=1e-12)


def test_batches_differ_in_their_minimisers_and_their_sum_has_the_simplex():
    found = theory.batch_minimisers()
    by_counts = {one.counts: one for one in found.configurations}
    assert set(by_counts) == {(5, 4), (5, 3, 1), (5, 2, 2), (4, 4, 1), (4, 3, 2), (3, 3, 3)}
    assert sum(one.batches for one in found.configurations) == math.comb(15, 9) == found.batches
    assert found.differing == 5
    assert by_counts[3, 3, 3].gain == pytest.approx(0, abs=1e-7)
    assert by_counts[5, 4].arrangement.cosines[0, 1] == pytest.approx(-1, abs=1e-6)
    for one in found.configurations:
        assert one.value < one.simplex_value + 1e-9
        assert one.converged
    assert found.arrangement.is_simplex(1e-4)
    assert found.converged
    assert 0 <= found.excess + 1e-6 < 1e-3  # of 55,952
    z, y = found.positions.numpy(), found.labels.numpy()
    one = by_counts[4, 3, 2]
    labels = np.repeat([0, 1, 2], [4, 3, 2])
    assert supcon_sum(one.positions.numpy(), labels, 9, 1.0, "sets") == pytest.approx(one.value, rel=1e-9)
    assert np.allclose(z @ z.T, np.where(y[:, None] == y, 1, -0.5), atol=1e-4)


def test_a_single_batch_minimiser_costs_the_whole():
    """The minimiser of the commonest configuration is not the simplex: read over all batches it is worse."""
    found = theory.batch_minimisers(members=4, batch=9)
    one = next(one for one in found.configurations if one.counts == (4, 3, 2))
    means = one.arrangement.means / one.arrangement.means.norm(dim=1, keepdim=True)
    elsewhere = theory.supcon_sum(means.repeat_interleave(4, dim=0), (4, 4, 4), 9)
    assert elsewhere > found.value + 1e-3
    assert found.value == pytest.approx(found.bound, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.supcon_bound_over_batches((5,), 2), "at least two classes"),
        (
            lambda: theory.supcon_bound_over_batches((2, 2), 5),
            r"a batch of at most all points: got counts=\(2, 2\), batch=5",
        ),
        (
            lambda: theory.supcon_bound_over_batches((2, 2), 2, draw="bags"),
            "draw must be one of 'sets', 'multisets': got 'bags'",
        ),
        (lambda: theory.all_batches(60, 9), "14,783,142,660 batches of 9, more than 2,000,000"),
        (lambda: theory.batch_minimisers(classes=4, dim=2), r"2 to dim \+ 1 classes.*classes=4, dim=2"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(OptionError, match=words):
        call()


def test_classes_without_points_count_too():
    """A class of nobody is in every batch with no member; the others are as without it."""
    for draw in ("sets", "multisets"):
        for counts in ((3, 0), (2, 0, 2)):
            y = np.repeat(np.arange(len(counts)), counts)
            found = Counter()
            for members in CHOOSE[draw](range(len(y)), 3):
                found.update(int((y[list(members)] == c).sum()) for c in range(len(counts)))
            assert theory.pairs_with_members(counts, 3, draw) == tuple(found[size] for size in range(4))
            bound = theory.supcon_bound_over_batches(counts, 3, temperature=0.5, draw=draw)
            corners = theory.simplex(len(counts), 3).numpy()[y]
            assert supcon_sum(corners, y, 3, 0.5, draw) == pytest.approx(bound, rel=1e-9)


def test_minimisers_at_another_temperature():
    """Every figure belongs to the temperature that was asked for."""
    found = theory.batch_minimisers(members=3, batch=6, temperature=0.3, starts=1)
    z, y = found.positions.numpy(), found.labels.numpy()
    assert supcon_sum(z, y, 6, 0.3, "sets") == pytest.approx(found.value, rel=1e-9)
    assert supcon_sum(theory.simplex(3, 2).numpy()[y], y, 6, 0.3, "sets") == pytest.approx(found.bound, rel=1e-9)
    assert found.converged
    assert found.value == pytest.approx(found.bound, rel=1e-6)
    for one in found.configurations:
        labels = np.repeat(np.arange(len(one.counts)), one.counts)
        corners = theory.simplex(3, 2).numpy()[labels]
        assert supcon_sum(one.positions.numpy(), labels, 6, 0.3, "sets") == pytest.approx(one.value, rel=1e-9)
        assert supcon_sum(corners, labels, 6, 0.3, "sets") == pytest.approx(one.simplex_value, rel=1e-9)


def test_of_several_starts_the_lowest_is_kept():
    """After too few steps to converge, so that starts end at different places."""
    options = {"members": 4, "batch": 7, "temperature": 0.1, "steps": 1}
    single = [theory.batch_minimisers(seed=seed, starts=1, **options).configurations for seed in (4, 5, 6)]
    kept = theory.batch_minimisers(seed=4, starts=3, **options).configurations
    ends = [[one.value for one in of_one] for of_one in zip(*single, strict=True)]
    assert all(len(set(values)) == 3 for values in ends)
    assert [one.value for one in kept] == [min(values) for values in ends]


def test_a_gain_within_rounding_is_no_difference():
    """1e-6 an anchor, of which there are three."""
    found = theory.batch_minimisers(members=2, batch=3, starts=1)
    first = found.configurations[0]
    for gain, differing in ((-1e-3, 0), (2.9e-6, 0), (3.1e-6, 1), (1e-3, 1)):
        other = replace(first, value=0.0, simplex_value=gain)
        assert replace(found, configurations=(other,)).differing == differing


def test_cosines_are_printed_pair_by_pair():
    """Of classes a and b once, and of none with itself."""
    found = theory.batch_minimisers(members=2, batch=4, starts=1)
    *_, last = str(found).splitlines()
    cosines = found.arrangement.cosines
    assert last.split()[-3:] == [f"{float(cosines[a, b]):+.3f}" for a, b in ((0, 1), (0, 2), (1, 2))]
