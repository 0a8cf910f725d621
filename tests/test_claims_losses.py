"""Claims 8 to 10 on runs that are made up: verdicts follow their criteria, figures are those of the embeddings."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from sincere.claims import find_claim, sincere_losses, target_and_noise
from sincere.embeddings import EmbeddingSet


def embedded(common, spread, names=("car", "truck", "ship"), seed=0):
    """Classes at right angles, all of them moved along one more direction by `common`."""
    labels = torch.arange(120) % 3
    rows = spread * torch.randn(120, 8, generator=torch.Generator().manual_seed(seed)) + torch.eye(8)[labels]
    rows[:, 7] += common
    return EmbeddingSet(rows, labels, names, "made up")


def run(curve=(1.0,), found=None):
    found = embedded(0.0, 0.3) if found is None else found
    return SimpleNamespace(epoch_losses=lambda: list(curve), embeddings=lambda split: found)


@pytest.fixture
def outcome(monkeypatch):
    """Of a claim, from the runs of both losses, seed by seed; batches of 30 rows, so 9 positives of three classes."""

    def of(claim, data="made up", **runs):
        one = SimpleNamespace(
            data=data,
            title="made up",
            seeds=tuple(range(len(runs["sincere"]))),
            seeds_in_words="seeds",
            rows_of_a_batch=30,
            runs=lambda loss: iter(runs[loss]),
            run=lambda loss, seed: runs[loss][seed],
        )
        for module in (sincere_losses, target_and_noise):
            monkeypatch.setattr(module, "experiments", lambda conditions: (one,))
        return find_claim(claim).run(None)

    return of


@pytest.mark.parametrize(
    ("sincere", "supcon", "verdict", "words"),
    [
        ((6.6, 3.0, 0.69), (6.9, 5.0, 2.1), "reproduced", ""),
        ((6.5, 3.0, 0.69), (6.9, 5.0, 2.1), "partly", "The first epochs differ by more."),
        ((7.3, 3.0, 0.69), (6.9, 5.0, 2.1), "partly", "The first epochs differ by more."),
        ((6.6, 3.0, 0.70), (6.9, 5.0, 2.1), "partly", "The last epochs do not fulfil it."),
        ((6.6, 3.0, 0.69), (6.9, 5.0, 2.0), "partly", "The last epochs do not fulfil it."),  # below log 9
        ((6.6, 3.0, 0.69), (6.9, 5.0, 2.88), "reproduced", ""),
        ((6.6, 3.0, 0.69), (6.9, 5.0, 2.90), "partly", "The last epochs do not fulfil it."),  # above log 18
        ((6.6, 3.0, 0.69), (6.9, 6.9, 6.9), "partly", "The last epochs do not fulfil it."),  # has learnt nothing
        ((6.5, 3.0, 0.70), (6.9, 5.0, 2.1), "not reproduced", "The first epochs differ by more. The last"),
    ],
)
def test_losses_start_alike_and_end_apart(outcome, sincere, supcon, verdict, words):
    alright = run((6.6, 0.1)), run((6.6, 2.5))  # another seed, on which nothing depends
    found = outcome("table-1", sincere=[run(sincere), alright[0]], supcon=[run(supcon), alright[1]])
    assert found.verdict == verdict
    assert words in found.reason
    assert ("do not" in found.reason or "differ" in found.reason) == bool(words)
    values = {one.what: one.value for one in found.measured}
    assert values["made up SINCERE, first epoch"] == pytest.approx((sincere[0] + 6.6) / 2)
    assert values["made up SupCon, last epoch"] == pytest.approx((supcon[-1] + 2.5) / 2)


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(
    ("sincere", "supcon", "verdict"),
    [
        ((0.2, 0.3), (1.0, 0.1), "reproduced"),
        ((0.2, 0.1), (1.0, 0.3), "partly"),  # lower between classes alone
        ((1.0, 0.3), (0.2, 0.1), "partly"),  # lower within classes alone
        ((1.0, 0.1), (0.2, 0.3), "not reproduced"),
        ((0.2, 0.6), (0.5, 0.1), "partly"),  # lower in both, but more so within classes
        ((0.5, 0.1), (0.2, 0.6), "not reproduced"),  # higher in both, though less so between classes
    ],
)
def test_cosines_are_lower_within_classes_and_between_them(outcome, sincere, supcon, verdict, seeds):
    sets = {
        "sincere": [embedded(*sincere, seed=seed) for seed in range(seeds)],
        "supcon": [embedded(*supcon, seed=10 + seed) for seed in range(seeds)],
    }
    found = outcome("figure-2", **{loss: [run(found=one) for one in some] for loss, some in sets.items()})
    assert found.verdict == verdict
    assert found.measured[0].n == ("120 test samples × 1 seed" if seeds == 1 else "3 seeds")
    assert ("With one seed the interval is over test images" in found.reason) == (seeds == 1)
    assert "−1/2 = −0.5000 between classes" in found.reason
    z = F.normalize(sets["supcon"][0].embeddings, dim=1)
    cosines = [row["mean_cosine"] for row in found.rows if (row["loss"], row["run"]) == ("supcon", 0)]
    assert cosines[1] == pytest.approx(float((z[0::3] @ z[1::3].T).mean()), abs=1e-5)


def test_the_papers_change_is_compared_where_it_has_one(outcome):
    sets = {"sincere": embedded(0.2, 0.3), "supcon": embedded(1.0, 0.1, seed=10)}
    runs = {loss: [run(found=one)] for loss, one in sets.items()}
    found = outcome("figure-2", data="cifar10", **runs)
    values = {one.what: one.value for one in found.measured}
    within, between = (values[f"SINCERE − SupCon {which} classes"] for which in ("within", "between"))
    words = (
        f"The change is within classes {within / -0.06:.1f} times and between classes {between / -0.11:.1f} times that"
    )
    assert words in found.reason
    other = outcome("figure-2", **runs)  # the paper has CIFAR-10 alone
    assert "that of the paper" not in other.reason
    assert all(one.paper is None for one in other.measured)


def around(angle, spread, seed):
    """Trucks near one direction, as many of two other classes at an angle to it, all of them spread."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(120) % 3
    places = torch.tensor([angle, 0.0, angle], dtype=torch.float64)[labels]
    places = places + spread * torch.randn(120, generator=generator, dtype=torch.float64)
    return EmbeddingSet(torch.stack([places.cos(), places.sin()], dim=1).float(), labels, ("car", "truck", "ship"), "")


def cosines(found):
    """Of trucks with each other, and with the others: every pair by itself."""
    z = F.normalize(found.embeddings.double(), dim=1)
    trucks, others = z[1::3], torch.cat([z[0::3], z[2::3]])
    above = torch.triu_indices(len(trucks), len(trucks), offset=1)
    return (trucks @ trucks.T)[above[0], above[1]], (trucks @ others.T).flatten()


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(
    ("sincere", "supcon", "verdict", "missing"),
    [
        ((1.6, 0.25), (0.3, 0.1), "reproduced", ()),
        (
            (1.6, 0.1),
            (0.5, 0.25),
            "partly",
            ("mean cosine of target and of noise is lower (not of the target)", "wide"),
        ),
        ((2.8, 0.25), (0.5, 0.25), "partly", ("target and of noise is lower (not of the target)", "both spread wider")),
        ((0.8, 0.5), (0.9, 0.1), "not reproduced", ("lower (not of the noise)", "overlap less")),
        ((0.5, 0.1), (1.6, 0.25), "not reproduced", ("noise is lower.", "both spread wider.", "overlap less.")),
    ],
)
def test_target_and_noise_of_a_class_are_better_apart(outcome, sincere, supcon, verdict, missing, seeds):
    sets = {
        "sincere": [around(*sincere, seed=seed) for seed in range(seeds)],
        "supcon": [around(*supcon, seed=10 + seed) for seed in range(seeds)],
    }
    found = outcome("figure-3", **{loss: [run(found=one) for one in some] for loss, some in sets.items()})
    told = found.reason.partition("Not shown: ")[2]
    assert found.verdict == verdict, found
    assert bool(told) == bool(missing)
    for words in missing:
        assert words in told
    read = {
        "mean cosine of truck with itself": lambda target, noise: target.mean(),
        "mean cosine of truck with others": lambda target, noise: noise.mean(),
        "deviation of cosines of truck with itself": lambda target, noise: target.std(correction=0),
        "deviation of cosines of truck with others": lambda target, noise: noise.std(correction=0),
    }
    values = {one.what.removesuffix(", SINCERE − SupCon"): one.value for one in found.measured}
    for name, look in read.items():
        means = [sum(float(look(*cosines(one))) for one in some) / seeds for some in sets.values()]
        assert values[name] == pytest.approx(means[0] - means[1], abs=0.01), name  # half a bin


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(
    ("sincere", "supcon", "words"),
    [
        ((1.6, 0.3), (0.6, 0.4), "SINCERE separates better"),
        ((0.6, 0.4), (1.6, 0.3), "SupCon separates better"),
        ((0.9, 0.3), (0.9, 0.3), "no difference is shown"),
    ],
)
def test_separation_is_told_by_the_auroc_too(outcome, sincere, supcon, words, seeds):
    sets = {
        "sincere": [around(*sincere, seed=seed) for seed in range(seeds)],
        "supcon": [around(*supcon, seed=10 + seed) for seed in range(seeds)],
    }
    found = outcome("figure-3", **{loss: [run(found=one) for one in some] for loss, some in sets.items()})
    figures = {one.what: one for one in found.measured}
    areas = {
        loss: [float((target[:, None] > noise).double().mean()) for target, noise in map(cosines, some)]
        for loss, some in sets.items()
    }
    means = {loss: sum(values) / seeds for loss, values in areas.items()}
    assert figures["AUROC of truck, SINCERE"].value == pytest.approx(means["sincere"], abs=1e-5)
    assert figures["AUROC of truck, SupCon"].value == pytest.approx(means["supcon"], abs=1e-5)
    change = figures["AUROC of truck, SINCERE − SupCon"]
    assert change.value == pytest.approx(means["sincere"] - means["supcon"], abs=1e-5)
    assert change.n == ("120 test samples × 1 seed" if seeds == 1 else "3 seeds")
    assert f"another class; not judged) {words}." in found.reason


def test_where_there_is_no_truck_the_last_class_is_shown(outcome):
    runs = [run(found=embedded(0.2, 0.3, names=("a", "b", "c")))]
    found = outcome("figure-3", sincere=runs, supcon=runs)
    assert found.setting.endswith("class 'c'; 1 seed")
