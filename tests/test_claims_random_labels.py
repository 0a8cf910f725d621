"""Claim 23 on images: random labels, when a network has fitted them, and runs that were cut off."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sincere.claims import ClaimResult, random_image_labels, random_labels, reproduce
from sincere.claims.random_image_labels import Fitter, Fitting, chosen_rate, fit_images, normalised, randomised
from sincere.data import LabelledData, Splits
from sincere.errors import InputError

TINY = Fitting(
    "small_cnn", {"width": 4}, images=36, max_epochs=3, shares=(0.0, 0.5, 1.0), seeds=(0, 1), batch=12, rates=(0.05,)
)
CPU = torch.device("cpu")


def bright_and_dark(n=36, classes=3):
    """Images that show their class by their brightness."""
    labels = torch.arange(n) % classes
    noise = torch.randint(0, 40, (n, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    return (labels.view(-1, 1, 1, 1) * 100 + noise).clamp(max=255).to(torch.uint8), labels


def test_a_share_of_the_labels_is_drawn_anew():
    labels = torch.arange(4000) % 10
    assert torch.equal(randomised(labels, 0.0, classes=10, seed=0), labels)
    half, more = (randomised(labels, share, classes=10, seed=0) for share in (0.5, 0.75))
    # 2,000 are drawn, and a tenth of them come out as they were: 1,800 ± 13 differ (6 deviations are 80).
    assert abs(int((half != labels).sum()) - 1800) < 80
    assert torch.equal(more[half != labels], half[half != labels])  # a larger share has all of a smaller one's
    whole = randomised(labels, 1.0, classes=10, seed=0)
    assert torch.bincount(whole).float().std() < 60
    assert not torch.equal(whole, randomised(labels, 1.0, classes=10, seed=1))
    assert torch.equal(labels, torch.arange(4000) % 10)


def test_images_are_normalised_by_channel():
    images = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8)
    theirs = images.numpy().astype(np.float64)
    theirs = (theirs - theirs.mean(axis=(0, 2, 3), keepdims=True)) / theirs.std(axis=(0, 2, 3), ddof=1, keepdims=True)
    np.testing.assert_allclose(normalised(images).numpy(), theirs, atol=1e-5)


@pytest.mark.parametrize("loss", random_image_labels.LOSSES)
def test_a_network_fits_what_images_show_and_the_steps_are_counted(loss):
    images, labels = bright_and_dark()
    torch.manual_seed(0)
    fitter = Fitter(loss, normalised(images), 3, replace(TINY, max_epochs=60))
    run = fitter.steps_to_fit(labels, rate=0.05, share=0.0, seed=3)
    assert run.fitted
    assert run.steps % 3 == 0  # whole epochs of three batches
    random = randomised(labels, 1.0, classes=3, seed=0)
    given_up = fitter.steps_to_fit(random, rate=0.05, share=1.0, seed=3, max_epochs=1)
    assert (given_up.steps, given_up.fitted) == (3, False)
    torch.manual_seed(1)  # nothing of it comes from torch's own generator, nor from the runs before
    assert fitter.steps_to_fit(labels, rate=0.05, share=0.0, seed=3) == run
    assert Fitter(loss, normalised(images), 3, fitter.fitting).steps_to_fit(labels, rate=0.05, share=0.0, seed=3) == run


@pytest.mark.parametrize(
    ("loss", "share", "rates"),
    [
        ("cross_entropy", 0.0, (0.0001, 0.02, 0.002)),
        ("supcon", 0.1, (0.0001, 0.002, 0.005)),
        ("sincere", 0.1, (0.0001, 0.005, 0.002)),
    ],
)
def test_each_loss_has_the_rate_that_fits_soonest(loss, share, rates):
    """On labels that are hard enough for rates to differ; the first rate never fits them, the second or third best."""
    images, labels = bright_and_dark()
    labels = randomised(labels, share, classes=3, seed=0)
    some = replace(TINY, max_epochs=20, rates=rates)
    inputs = normalised(images)
    steps = {}
    for rate in some.rates:
        # The seed after its own two.
        found = Fitter(loss, inputs, 3, some).steps_to_fit(labels, rate=rate, share=0.0, seed=2)
        steps[rate] = found.steps if found.fitted else float("inf")
    assert len(set(steps.values())) > 1
    never = replace(some, max_epochs=0, rates=(0.3, 0.1))
    assert chosen_rate(Fitter(loss, inputs, 3, never), labels) == 0.3
    just = replace(some, max_epochs=int(min(steps.values())) // 3)  # the best fits in the last epoch that is allowed
    for asked in (some, just):
        assert steps[chosen_rate(Fitter(loss, inputs, 3, asked), labels)] == min(steps.values())


def test_training_accuracy_by_hand():
    """The largest logit; or the nearest class mean by cosine, of normalised embeddings."""
    network, inputs = nn.Flatten(), torch.randn(30, 4, 1, 1, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 4
    vectors = inputs.flatten(1).double()
    expected = float((vectors.argmax(dim=1) == labels).double().mean())
    assert random_image_labels.training_accuracy("cross_entropy", network, inputs, labels) == expected
    unit = F.normalize(vectors, dim=1)
    right = 0
    for i in range(30):
        cosines = [float(unit[i] @ F.normalize(unit[labels == c].mean(dim=0), dim=0)) for c in range(4)]
        right += cosines.index(max(cosines)) == int(labels[i])
    assert random_image_labels.training_accuracy("supcon", network, inputs, labels) == pytest.approx(right / 30)


@pytest.mark.parametrize("loss", random_image_labels.LOSSES)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_look_at_a_tenth_spares_the_rest_and_changes_no_count(loss, share, monkeypatch):
    """Against looks at every image after each epoch, by the accuracy that is compared with one by hand above."""
    monkeypatch.setattr(random_image_labels, "PORTION", 4)
    images, labels = bright_and_dark(n=400)
    inputs, labels = normalised(images), randomised(labels, share, classes=3, seed=0)
    fitter = Fitter(loss, inputs, 3, replace(TINY, images=400, max_epochs=6, batch=50, threshold=0.99))
    seen = []

    def looked(some):
        seen.append(len(some))
        return fitter.network(some)

    fitter._evaluated = looked
    found = fitter.steps_to_fit(labels, rate=0.02, share=share, seed=0)
    with_a_tenth = sum(seen)

    def whole(labels):
        return random_image_labels.training_accuracy(loss, fitter.network, inputs, labels, evaluated=looked) >= 0.99

    seen.clear()
    monkeypatch.setattr(fitter, "_has_fitted", whole)
    assert fitter.steps_to_fit(labels, rate=0.02, share=share, seed=0) == found
    assert sum(seen) == 400 * found.steps // 8  # all of them after each epoch of eight batches
    assert found.fitted == (share == 0)
    assert share == 0 or with_a_tenth < sum(seen) / 2  # plain labels may be fitted after the first epoch


def test_runs_are_kept_and_gone_on_with(tmp_path):
    images, labels = bright_and_dark()
    kept, said = tmp_path / "runs.json", []
    whole = fit_images(images, labels, TINY, kept=kept, place=CPU, say=said.append)
    assert len(whole.runs) == 3 * 3 * 2
    assert len(said) == 3 + 3 * 3 * 2  # a learning rate for each loss first
    assert whole.rates == {"cross_entropy": 0.05, "supcon": 0.05, "sincere": 0.05}
    document = json.loads(kept.read_text())
    document["runs"] = document["runs"][:5]  # as if the sixth had been cut off
    kept.write_text(json.dumps(document))
    again, before = fit_images(images, labels, TINY, kept=kept, place=CPU, say=said.append), len(said)
    assert again.runs == whole.runs
    assert before == 3 + 18 + 13
    fit_images(images, labels, TINY, kept=kept, place=CPU, say=said.append)
    assert len(said) == before  # nothing was left to do
    other = replace(TINY, max_epochs=4)
    with pytest.raises(InputError, match="other settings"):
        fit_images(images, labels, other, kept=kept, place=CPU, say=said.append)


def test_where_runs_were_made_is_kept(tmp_path, monkeypatch):
    images, labels = bright_and_dark()
    kept = tmp_path / "runs.json"
    here = fit_images(images, labels, TINY, kept=kept, place=CPU, say=print).made_on
    assert len(here) == 1
    assert f"torch {torch.__version__}, commit " in here[0]
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps(document | {"runs": document["runs"][:3]}))
    monkeypatch.setattr(random_image_labels, "described_origin", lambda start: "elsewhere")
    there = fit_images(images, labels, TINY, kept=kept, place=CPU, say=print)
    assert there.made_on == (*here, "elsewhere")
    assert random_image_labels.described(TINY, "it", there).endswith(f"2 seeds; made on {here[0]}; elsewhere")
    assert fit_images(images, labels, TINY, kept=kept, place=CPU, say=print).made_on == there.made_on


def test_the_claim_on_images(tmp_path, monkeypatch):
    """Its fast form, with a tiny network and few images in place of its own."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (100, 3, 8, 8), dtype=torch.uint8, generator=generator)
    made = LabelledData(images, torch.arange(100) % 10, tuple(map(str, range(10))), "image", "cifar10")
    monkeypatch.setattr(random_labels, "open_data", lambda source, **_: Splits(made, None, made))
    tiny = Fitting("small_cnn", {"width": 4}, images=60, max_epochs=2, shares=(0.0, 0.5, 1.0), seeds=(0, 1), batch=30)
    tiny = replace(tiny, rates=(0.05, 0.01))
    monkeypatch.setitem(random_labels.ON_IMAGES, "fast", (tiny, "a tiny network"))
    result = reproduce("random-labels", form="fast", data={"cifar10": "here"}, out=tmp_path / "out", seed=4)
    assert result.setting.startswith("the first 60 training images of CIFAR-10, a tiny network")
    assert "Never fitted, and counted with the last step that was allowed: 2 runs of cross-entropy by" in result.reason
    assert "; 2 runs of SupCon by SGD, 100 % of 60 labels random" in result.reason
    assert {one.n for one in result.measured} == {"2 seeds"}
    kept = tmp_path / "out" / "random-labels"
    assert ClaimResult.from_json((kept / "fast.json").read_text()) == result
    seeds = {line.split(",")[4] for line in (kept / "fast.csv").read_text().splitlines()[1:]}
    assert seeds == {"4", "5"}


def test_without_images_the_full_form_has_points_and_the_fast_one_is_refused(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(random_labels, "fit_random_labels", lambda *_, **settings: asked.append(settings) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reproduce("random-labels", form="full", out=tmp_path)
    assert asked[0]["samples"] == 256
    with pytest.raises(InputError, match="needs cifar10"):
        reproduce("random-labels", form="fast", out=tmp_path)
