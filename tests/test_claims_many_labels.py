"""Claim 24: its data, its losses and its answer."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import sincere.functional as SF
from sincere.claims import many_labels
from sincere.claims.label_sets import DIGITS, digits_in_a_row, questions
from sincere.claims.many_labels import (
    CROSS_ENTROPY,
    PLAIN,
    LabelSetCrossEntropy,
    LabelSetLoss,
    Reading,
    answer,
    figures_of,
    ways,
)
from sincere.recipes.laptop import digits as digits_recipe
from sincere.train.own_loss import own_loss

GENERATOR = torch.Generator().manual_seed(0)


def test_rows_of_digits_carry_their_digits():
    data = digits_in_a_row(300, seed=0)
    train = data.splits.train
    assert train.inputs.shape == (300, 1, 8, 24)
    hot = data.hot(train.labels)
    assert [train.class_names[place] for place in train.labels[:5]] == [
        " and ".join(str(digit) for digit in range(DIGITS) if row[digit]) for row in hot[:5]
    ]
    filled = train.inputs.view(300, 8, 3, 8).amax(dim=(1, 3)) > 0
    assert set(filled.sum(dim=1).tolist()) == {1, 2, 3}
    assert bool((hot.sum(dim=1) <= filled.sum(dim=1)).all())  # a digit may come twice
    alone = filled.sum(dim=1) == 1
    assert bool((hot[alone].sum(dim=1) == 1).all())
    counts = digits_in_a_row(4000, seed=1).hot(digits_in_a_row(4000, seed=1).splits.train.labels).sum(dim=0)
    assert counts[0] > 5 * counts[9] > 0  # 0.75⁹ is a thirteenth, and frequent ones often come twice
    same = digits_in_a_row(300, seed=0).splits
    assert torch.equal(same.train.inputs, train.inputs)


def test_digits_of_the_test_rows_are_not_those_of_the_training_rows():
    data = digits_in_a_row(400, seed=0).splits

    def pieces(part):
        some = part.inputs.view(-1, 8, 3, 8).permute(0, 2, 1, 3).reshape(-1, 64)
        return {bytes(piece.tolist()) for piece in some if piece.any()}

    assert not pieces(data.train) & pieces(data.test)


def test_questions_carry_a_coarse_and_a_fine_label(tmp_path):
    kinds = ["NUM:date", "NUM:dist", "HUM:ind"]
    lines = [f"{kinds[place % 3]} What is {place} ?" for place in range(60)]
    (tmp_path / "train_5500.label").write_text("\n".join(lines), encoding="latin-1")
    data = questions(f"trec:{tmp_path / 'train_5500.label'}")
    assert data.names == ("HUM", "NUM", "HUM:ind", "NUM:date", "NUM:dist")
    assert (len(data.splits.train), len(data.splits.test)) == (36, 24)
    assert data.rare == (2, 3, 4)
    for text, row in zip(data.splits.test.shown, data.hot(data.splits.test.labels).tolist(), strict=True):
        place = int(text.split()[2])
        assert [name for name, carried in zip(data.names, row, strict=True) if carried] == [
            kinds[place % 3].partition(":")[0],
            kinds[place % 3],
        ]


@pytest.mark.parametrize("way", [*ways(torch.eye(3), digits_recipe())][:5])
def test_each_way_is_the_librarys_loss_on_multi_hot_labels(way):
    table = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 1, 1]])
    config = ways(table, digits_recipe())[way]
    loss = own_loss(config.name, temperature=0.2, gather=False, **config.options)
    z, labels = torch.randn(9, 2, 4, generator=GENERATOR), torch.arange(9) % 3
    hot = table[labels]
    name, positives = config.options["loss"], config.options["positives"]
    weights = hot.sum(dim=1) if "MulSupCon" in way else None
    wanted = getattr(SF, name)(z, hot > 0, temperature=0.2, positives=positives, weights=weights)
    assert isinstance(loss, LabelSetLoss)
    assert float(loss(z, labels)) == float(wanted)


def test_cross_entropy_is_of_every_label_and_view():
    table = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 1, 1]])
    loss = LabelSetCrossEntropy(temperature=0.1, table=table.tolist(), dim=4)
    z, labels = torch.randn(6, 2, 4, generator=GENERATOR), torch.arange(6) % 3
    rows = loss.classifier(z.flatten(0, 1))
    wanted = F.binary_cross_entropy(rows.sigmoid(), table[labels].repeat_interleave(2, dim=0))
    assert loss(z, labels).item() == pytest.approx(wanted.item(), rel=1e-5)
    assert [name for name, _ in loss.named_parameters()] == ["classifier.weight", "classifier.bias"]


def test_answer_names_what_differs_over_seeds():
    base = [Reading(90.0 + seed, 60.0 + seed, 50.0) for seed in range(3)]
    better = [replace(one, rare=one.rare + 5 + 0.1 * seed) for seed, one in enumerate(base)]
    unsteady = [replace(one, precision=one.precision + 3 * (seed - 1)) for seed, one in enumerate(base)]
    told = answer("digits", {PLAIN: base, "better": better, "unsteady": unsteady})
    assert f"Digits, mean average precision of {PLAIN}: on all labels 91 %, no other way is shown to differ" in told
    assert "on rare labels 61 %, points more or less: better 5.1 (4.852 to 5.348)." in told
    assert "unsteady" not in told
    figures = figures_of("digits", {PLAIN: base, CROSS_ENTROPY: better})
    assert [one.what for one in figures[:3]] == [
        f"digits: {PLAIN} − {CROSS_ENTROPY}, mean average precision, points",
        f"digits: {PLAIN}, mean average precision, %",
        f"digits: {CROSS_ENTROPY}, mean average precision, %",
    ]
    assert figures[3].value == pytest.approx(-5.1)


def test_every_way_trains_and_is_read(tmp_path, monkeypatch):
    from sincere.claims import find_claim
    from sincere.claims.claim import Conditions
    from sincere.claims.laboratory import Laboratory

    few = digits_in_a_row(60, seed=0)
    plain = replace(digits_recipe(), epochs=1)
    plain = replace(plain, data=replace(plain.data, source="digits in a row"))
    monkeypatch.setattr(many_labels, "QUICK_SEEDS", 2)
    small = many_labels.Experiment("few", "few rows", few, replace(plain, batches=replace(plain.batches, size=30)))
    monkeypatch.setattr(many_labels, "row_experiment", lambda conditions: small)
    outcome = find_claim("many-labels").run(Conditions("quick", 0, Laboratory(tmp_path, "off")))
    assert outcome.verdict == "answered"
    assert len(outcome.rows) == 2 * len(ways(few.table, plain))
    assert {row["way"] for row in outcome.rows} == set(ways(few.table, plain))
    assert all(0 <= row[field] <= 100 for row in outcome.rows for field in ("precision", "rare", "jaccard"))
    from matplotlib.figure import Figure

    figure = Figure()
    outcome.draw(figure)
    assert len(figure.axes) == 2
