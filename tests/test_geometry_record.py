"""The whole description: it is made of its parts, survives JSON, and says what it sees."""

import json
import math
from dataclasses import replace

import pytest
import torch

from embedded import made, simplex
from sincere import geometry
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate.record import Estimate
from sincere.geometry import Geometry, describe


@pytest.fixture(scope="module")
def found():
    return describe(made(seed=2), train=made(n=120, seed=1), draws=100, bins=60)


def test_it_holds_what_its_parts_say(found):
    test = made(seed=2)
    assert found.similarity == geometry.similarity_by_class_pair(test)
    assert found.histograms == geometry.similarity_histograms(test, bins=60)
    assert found.margins == geometry.class_margins(test, draws=100)
    assert found.simplex == geometry.simplex_conditions(test)
    assert found.neural_collapse == geometry.neural_collapse(test)
    assert (found.alignment, found.uniformity) == (geometry.alignment(test), geometry.uniformity(test))
    assert found.spectrum == geometry.spectrum(test)
    assert found.repulsion == geometry.repulsion(test)
    assert found.kl_bounds == geometry.kl_bounds(test)
    assert found.loss_readings == geometry.loss_readings(test)
    assert found.head_robustness == geometry.head_robustness(made(n=120, seed=1), test, draws=100)
    assert describe(test, draws=100).head_robustness is None


def test_json_keeps_everything(found):
    text = found.to_json()
    assert Geometry.from_json(text) == found
    assert json.loads(text)["format"] == "sincere.geometry/1"
    assert "NaN" not in text
    assert "Infinity" not in text
    huge = replace(found, histograms=replace(found.histograms, within=(3 * 10**9,) * 60))
    assert Geometry.from_json(huge.to_json()) == huge


def test_broken_documents_are_refused(found):
    document = json.loads(found.to_json())
    for broken in ("[]", "{}", "no json", json.dumps({**document, "format": "sincere.evaluation/1"})):
        with pytest.raises(InputError):
            Geometry.from_json(broken)
    with pytest.raises(InputError, match="not a complete"):
        Geometry.from_json(json.dumps({name: value for name, value in document.items() if name != "simplex"}))
    with pytest.raises(InputError, match="has no field 'colour'"):
        Geometry.from_json(json.dumps({**document, "colour": 1}))
    with pytest.raises(InputError, match="must be int"):
        Geometry.from_json(json.dumps({**document, "samples": "many"}))


AWKWARD = {
    "one sample": EmbeddingSet(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64), ("a",), "one"),
    "one class": made(classes=1, n=9),
    "singles": EmbeddingSet(torch.eye(3), torch.arange(3), tuple("abc"), "singles"),
    "all the same": EmbeddingSet(torch.ones(6, 3), torch.arange(6) % 2, tuple("ab"), "same"),
    "zeros": EmbeddingSet(torch.zeros(6, 3), torch.arange(6) % 2, tuple("ab"), "zeros"),
    "class without samples": EmbeddingSet(torch.randn(6, 3), torch.arange(6) % 2, tuple("abc"), "gap"),
    "many classes, few dimensions": made(n=40, classes=9, dim=2),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("temperature", [0.01, 0.1])
def test_awkward_sets_are_described(name, temperature):
    found = describe(AWKWARD[name], draws=100, temperature=temperature)
    assert Geometry.from_json(found.to_json()) == found
    for words in (str(found), *found.summary):
        assert "nan" not in words.lower().replace("nanni", "")
        assert "inf" not in words.lower().replace("infonce", "")
    for value in (found.alignment, found.uniformity, found.simplex.s1, found.neural_collapse.nc1):
        assert value is None or math.isfinite(value)


def test_notes_say_what_was_left_out():
    notes = " ".join(describe(AWKWARD["class without samples"], draws=100).notes)
    assert "1 class has no sample and is left out: 'c'" in notes
    assert "do not fit a regular simplex in 2 dimensions" in " ".join(describe(made(classes=9, dim=2), draws=100).notes)
    assert "6 embeddings are zero" in " ".join(describe(AWKWARD["zeros"], draws=100).notes)
    assert "3 samples are the only ones" in " ".join(describe(AWKWARD["singles"], draws=100).notes)
    large = describe(made(n=2100, classes=3, dim=3), draws=100)
    assert "the set loss is not read over 2,100 samples at once" in " ".join(large.notes)
    assert "set_nce" not in large.loss_readings


def test_sentences_and_table_name_the_figures(found):
    perfect = describe(simplex(classes=4, members=6), draws=100)
    assert (
        "Members of a class have mean cosine 1.000, different classes −0.333; the simplex of 4 classes"
        in (perfect.summary[0])
    )
    assert any("use 3.0 of 8 dimensions" in sentence for sentence in perfect.summary)
    table = str(found)
    for words in ("mean cosine within classes", "S3 spread", "NC1", "SINCERE", "worst step", "class 4"):
        assert words in table
    assert f"{found.similarity.within:.3f}" in table
    assert any(f"{found.head_robustness.radius:.2f} in the worst direction" in one for one in found.summary)


def test_progress_is_told_and_repeats_are_the_same(found):
    steps = []
    again = describe(made(seed=2), train=made(n=120, seed=1), draws=100, bins=60, on_step=steps.append)
    assert again == found
    assert steps == ["class means", "margins", "all pairs", "losses", "linear head"]
    assert isinstance(again.margins.overall, Estimate)


def test_a_bound_below_zero_is_said_to_say_nothing():
    mixed = EmbeddingSet.from_arrays(torch.eye(4).repeat(3, 1), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    found = describe(mixed, draws=100)
    assert max(found.kl_bounds.values()) < 0
    (told,) = [sentence for sentence in found.summary if "KL bound" in sentence]
    assert told.startswith("The KL bound is not above 0 for 3 of 3 classes, and says nothing of them")
    assert "-" not in told
    assert not any("differs from the rest" in sentence for sentence in found.summary)
    lonely = describe(EmbeddingSet.from_arrays([[1.0, 0.0]] * 4 + [[-1.0, 0.0]] * 2, [0, 0, 0, 0, 1, 2]), draws=100)
    assert any(sentence.startswith("Each class with two samples differs") for sentence in lonely.summary)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_of_a_class_that_is_one_point_is_not_negative(seed):
    row = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed))
    found = describe(EmbeddingSet.from_arrays(row.repeat(34, 1), [0] * 3 + [1] * 7 + [2] * 11 + [3] * 13), draws=100)
    assert found.alignment >= 0
    assert found.alignment == pytest.approx(0, abs=1e-12)
    assert "−0.000" not in str(found)
    # As close to one mean as to another, whatever the last bits say.
    assert found.margins.overall_negative == 0
    assert set(found.margins.negative) == {0.0}


def test_a_sample_that_is_its_whole_class_has_no_score_of_its_own_class():
    """Three classes at the corners of a triangle, the third with one sample, whose own mean is itself."""
    corners = torch.tensor([[1.0, 0.0], [-0.5, 3**0.5 / 2], [-0.5, -(3**0.5) / 2]])
    known = EmbeddingSet.from_arrays(corners[[0, 0, 1, 1, 2]], [0, 0, 1, 1, 2], name="known")
    other = EmbeddingSet.from_arrays(-corners[[2]], [0], name="other")
    found = geometry.out_of_class(known, other, draws=100)
    # cos 120° to either of the other two means, where a mean of nothing would have given 0
    assert found.threshold == pytest.approx(-0.5, abs=1e-6)
    with pytest.raises(InputError, match="must hold at least two"):
        geometry.out_of_class(EmbeddingSet.from_arrays([[1.0, 0.0]], [0]), other)
