"""Every record of an experiment can be printed, saved and read back."""

import json
import math
from dataclasses import fields, replace

import pytest
import torch

from sincere import theory
from sincere.errors import InputError, OptionError

SMALL = {
    "sphere": lambda: theory.sphere_optimum("supcon", classes=3, dim=2, points=9, steps=20),
    "cross_entropy": lambda: theory.cross_entropy_optimum(classes=3, dim=2, points=9, steps=20),
    "batches": lambda: theory.batch_minimisers(members=2, batch=3, steps=20, starts=1),
    "imbalance": lambda: theory.imbalance_optimum(("supcon",), ratios=(1, 2), members=2, steps=20),
    "similarity": lambda: theory.similarity_optimum("supcon", points=8, steps=20, starts=1),
    "projection": lambda: theory.projection_optimum("supcon", members=2, steps=20, starts=1),
    "kl": lambda: theory.kl_bound_on_gaussians(negatives=(1, 4), samples=10),
    "lemma2": lambda: theory.lemma2_by_enumeration(samples=3, known=1),
    "ratio": lambda: theory.density_ratio_fit(samples=20, steps=20),
    "ranges": lambda: theory.gradient_ranges(batches=2),
    "single": lambda: theory.single_positive(batches=2),
    "positives": lambda: theory.repulsion_by_positives(positives=(1, 2), batches=2),
    "dynamics": lambda: theory.repulsion_dynamics(steps=2, every=1, members=3),
    "random": lambda: theory.random_labels(shares=(0, 0.5, 1), seeds=2, samples=32, max_steps=5),
}


def assert_same(one, other):
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, torch.Tensor):
            assert torch.equal(left, right), field.name
            assert left.dtype == right.dtype, field.name
        elif isinstance(left, theory.Arrangement):
            assert_same(left, right)
        else:
            assert repr(left) == repr(right), field.name  # NaN equals itself in words


@pytest.mark.parametrize("name", SMALL)
def test_record_survives_json(name):
    found = SMALL[name]()
    again = type(found).from_json(found.to_json())
    assert_same(found, again)
    assert str(found) == str(again)
    assert len(str(found).splitlines()) > 1


def test_broken_records_are_refused_with_words():
    found = theory.lemma2_by_enumeration(samples=3, known=1)
    document = json.loads(found.to_json())
    del document["difference"]
    for text in (json.dumps(document), "[]", "nonsense", theory.single_positive(batches=1).to_json()):
        with pytest.raises(InputError):
            theory.Lemma2Check.from_json(text)
    with pytest.raises(InputError, match=r"the format 'sincere\.theory\.Lemma2Check/1': got 'sincere\.theory\.Single"):
        theory.Lemma2Check.from_json(theory.single_positive(batches=1).to_json())


def test_names_are_sorted_and_documented():
    assert theory.__all__ == sorted(theory.__all__)
    for name in theory.__all__:
        assert getattr(theory, name).__doc__


def test_what_is_not_finite_is_still_json():
    found = theory.imbalance_optimum(("supcon",), majority=1, minority=1, ratios=(1,), members=2, steps=20)
    row = found.rows[0]
    assert math.isnan(row.majority_cosine)  # one large class has no other
    assert math.isnan(row.minority_angle)
    json.loads(found.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    again = type(found).from_json(found.to_json())
    assert repr(again) == repr(found)
    arranged = theory.arrangement(torch.tensor([[2.0, 1.0]]), torch.tensor([0]), 1)
    arranged = replace(arranged, means=torch.tensor([[torch.inf, 1.0]]))
    read = theory.Arrangement.from_json(arranged.to_json())
    assert repr(read.means) == repr(arranged.means)
    # as it was written before
    assert type(found).from_json(found.to_json().replace('"nan"', "NaN")).rows[0].ratio == 1


def test_two_equal_densities_leave_no_error_to_divide_by():
    found = theory.kl_bound_on_gaussians(separation=0.0, negatives=(1, 4), samples=20, losses=("infonce",))
    assert found.divergence == 0
    assert all(point.error < 1e-12 and point.bound < 0 for point in found.points)
    assert found.worst < -1e6
    assert found.tightens("infonce") > 1e6
    with pytest.raises(OptionError, match="there must be a loss and a temperature"):
        theory.kl_bound_on_gaussians(losses=())
