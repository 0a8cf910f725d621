"""Claims: the list is whole, results are kept as they were found, verdicts follow their criteria."""

import importlib.util
import json
import math
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

import sincere.functional as SF
from sincere.claims import (
    CLAIMS,
    ClaimResult,
    Measured,
    find_claim,
    graf_objectives,
    kept_results,
    listing,
    markdown_table,
    reproduce,
    set_loss,
    supcon_training,
)
from sincere.claims import experiments as shared
from sincere.claims.claim import Conditions
from sincere.claims.experiments import as_far_as_run, experiments
from sincere.claims.graf_closeness import Closeness, closer_is_better, judged_closeness, supcon_nearer
from sincere.claims.graf_errors import judged_errors
from sincere.claims.laboratory import Laboratory, Trained
from sincere.claims.objectives import contrastive, difference, objective
from sincere.claims.results import kept_forms
from sincere.claims.sincere_accuracy import RATES, beside_the_paper, judged_rates
from sincere.claims.statistics import covers_zero, over_seeds, wholly_below_zero, with_fisher_interval
from sincere.claims.supcon_training import LimitedPositives, judged_against_baselines, judged_positives
from sincere.errors import InputError, OptionError
from sincere.recipes import find_recipe
from sincere.runs import RunFolder
from sincere.views import Statistics, build_views

ROOT = Path(__file__).parent.parent


def test_the_list_is_whole():
    assert [claim.number for claim in CLAIMS] == list(range(1, 31))
    assert len({claim.name for claim in CLAIMS}) == 30
    for claim in CLAIMS:
        assert find_claim(claim.name) is find_claim(str(claim.number)) is claim
        assert claim.statement
        assert claim.paper
    with pytest.raises(OptionError, match="Did you mean 'table-2'"):
        find_claim("tabel-2")


def test_full_forms_ask_for_their_data_before_anything_else(tmp_path):
    with pytest.raises(InputError, match=r"data=\{'cifar10': 'PATH'\}"):
        reproduce("table-2", form="full", out=tmp_path)
    with pytest.raises(OptionError, match="only claims on CIFAR have a fast form"):
        reproduce("lemma-2", form="fast", out=tmp_path)
    with pytest.raises(InputError, match="needs cifar10"):
        reproduce("table-2", form="fast", out=tmp_path)
    with pytest.raises(OptionError, match="'quick', 'fast', 'full'"):
        reproduce("table-2", form="slow", out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def one_epoch(monkeypatch):
    """The training claims over one seed and one epoch: everything but the figures is as it is for users."""
    whole = shared.demo_configs
    monkeypatch.setattr(shared, "demo_configs", lambda *, seed: whole(seed=seed, epochs=1))
    monkeypatch.setattr(shared.digits, "__kwdefaults__", {"seeds": 1})


def test_training_claims_share_their_runs_and_keep_results(one_epoch, tmp_path):
    said = []
    for name in ("table-1", "figure-2", "figure-3", "table-2", "figure-a1"):
        result = reproduce(name, out=tmp_path, say=said.append, show="off")
        kept = tmp_path / name
        assert ClaimResult.from_json((kept / "quick.json").read_text()) == result
        assert (kept / "quick.png").read_bytes().startswith(b"\x89PNG")
        header, *rows = (kept / "quick.csv").read_text().splitlines()
        assert rows
        assert all(row.count(",") == header.count(",") for row in rows)
        assert result.provenance["versions"]["torch"] == torch.__version__
        assert result.measured
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"digits-sincere-0", "digits-supcon-0"}
    found = kept_results(tmp_path)
    assert sorted(found) == [8, 9, 10, 11, 12]
    table = markdown_table(found)
    assert len(table.splitlines()) == 2 + len(CLAIMS)
    assert table.count("not run yet") == 25
    assert sum("quick" in line for line in listing(found)) == 5
    assert "No result is kept here" in "\n".join(listing({}))


def test_figures_are_those_of_the_runs(one_epoch, tmp_path):
    """Figure 2's difference and Table 2's accuracies, computed again from the embeddings on disk."""
    conditions = Conditions("quick", 0, Laboratory(tmp_path, "off"))
    (one,) = experiments(conditions)
    means = {}
    for loss in ("sincere", "supcon"):
        test = one.run(loss, 0).embeddings("test")
        z, y = F.normalize(test.embeddings.double(), dim=1), test.labels
        cosines, same = z @ z.T, y.unsqueeze(0) == y.unsqueeze(1)
        other = ~torch.eye(len(y), dtype=torch.bool)
        means[loss] = cosines[same & other].mean(), cosines[~same].mean()
    found = {one.what: one for one in reproduce("figure-2", out=tmp_path / "r", runs=tmp_path, show="off").measured}
    for which, place in (("within", 0), ("between", 1)):
        expected = float(means["sincere"][place] - means["supcon"][place])
        assert found[f"SINCERE − SupCon {which} classes"].value == pytest.approx(expected, abs=1e-6)


def test_a_run_is_trained_once_and_never_mistaken_for_another(one_epoch, tmp_path):
    (one,) = experiments(Conditions("quick", 0, Laboratory(tmp_path, "off")))
    first = one.run("sincere", 0)
    stamp = first.folder.weights.stat().st_mtime_ns
    assert one.run("sincere", 0).folder.weights.stat().st_mtime_ns == stamp
    with pytest.raises(OptionError, match="other settings"):
        one.variant("sincere-0", replace(one.config("sincere", 0), epochs=2))


def test_differences_take_the_wider_interval(one_epoch, tmp_path):
    (one,) = experiments(Conditions("quick", 0, Laboratory(tmp_path, "off")))
    one = replace(one, seeds=(0, 1))
    sides = [objective(one, loss, loss, loss=contrastive(loss, one)) for loss in ("sincere", "supcon")]
    found = difference(*sides, "knn")
    by_seed = np.array([a - b for a, b in zip(*(side.top1("knn") for side in sides), strict=True)])
    assert found.value == pytest.approx(by_seed.mean())
    half = scipy.stats.t.ppf(0.975, 1) * by_seed.std(ddof=1) / np.sqrt(2)
    assert found.high - found.low >= 2 * half - 1e-9


def test_over_seeds_is_students_interval():
    values = [1.0, 2.0, 4.0, 4.5]
    found = over_seeds("x", values)
    low, high = scipy.stats.t.interval(0.95, 3, np.mean(values), scipy.stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(values), low, high))
    assert over_seeds("x", [3.0]).low is None


def test_intervals_by_their_formulas():
    values = [1.0, 2.0, 4.5, 3.0]
    low, high = scipy.stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy.stats.sem(values))
    found = over_seeds("x", values)
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(values), low, high))
    half = scipy.stats.norm.ppf(0.975) * math.sqrt((1 + 0.6**2 / 2) / (4 - 3))
    found = with_fisher_interval("r", -0.6, 4)
    assert found.low == pytest.approx(math.tanh(math.atanh(-0.6) - half), rel=1e-6)
    assert found.high == pytest.approx(math.tanh(math.atanh(-0.6) + half), rel=1e-6)
    assert with_fisher_interval("r", -0.6, 3).low is None


def test_an_interval_that_ends_at_zero_covers_it():
    for figures in ((0.5, 0.0, 1.0), (-0.5, -1.0, 0.0)):
        assert covers_zero(Measured("difference", *figures))
        assert not wholly_below_zero(Measured("difference", *figures))
    assert not covers_zero(Measured("difference", 0.5, 0.1, 1.0))
    assert not covers_zero(Measured("difference", -0.5, -1.0, -0.1))
    assert wholly_below_zero(Measured("difference", -0.5, -1.0, -0.1))
    assert not wholly_below_zero(Measured("difference", 0.0))
    assert not wholly_below_zero(Measured("difference", 0.5))


def test_fishers_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(0)
    truth, covered, cases = 6 / np.pi * np.arcsin(0.5 / 2), 0, 400  # Spearman's of a normal pair with correlation 0.5
    for _ in range(cases):
        x = generator.normal(size=30)
        y = 0.5 * x + np.sqrt(0.75) * generator.normal(size=30)
        found = with_fisher_interval("r", float(scipy.stats.spearmanr(x, y).statistic), 30)
        covered += found.low <= truth <= found.high
    assert abs(covered / cases - 0.95) < 3 * np.sqrt(0.95 * 0.05 / cases)


def measured(value, low=None, high=None):
    return Measured("x", value, low, high)


def test_closeness_compares_runs_of_one_seed_and_one_kind_of_views():
    """Augmentation moves the error by itself: over all runs of this table closer would be worse."""
    table = [
        ("cross-entropy", True, 0, 0.2, 27.0), ("cross-entropy", True, 1, 0.4, 27.5),
        ("SupCon", True, 0, 0.1, 25.0), ("SupCon", True, 1, 0.2, 26.0),
        ("cross-entropy", False, 0, 0.01, 42.0), ("SupCon", False, 0, 0.02, 41.0),
        ("cross-entropy", False, 1, 0.03, 40.0), ("SupCon", False, 1, 0.04, 39.0),
    ]  # fmt: skip
    places = [Closeness(name, how, seed, away, 0.5, 0.9, error, 9 - error) for name, how, seed, away, error in table]
    nearer = supcon_nearer(places)
    assert nearer.value == pytest.approx((-0.1 - 0.2) / 2)
    for method, sign in (("class_means", 1), ("linear", -1)):
        found = closer_is_better(places, method, augmented=True).value
        assert found == pytest.approx(sign * 0.9486833, abs=1e-6)  # a tie of two
        assert closer_is_better(places, method, augmented=False).value == pytest.approx(-sign)


def test_verdicts_follow_their_criteria():
    better, unclear = measured(1.0, 0.5, 1.5), measured(1.0, -0.5, 2.5)
    assert judged_against_baselines(better, better)[0] == "reproduced"
    assert judged_against_baselines(unclear, better)[0] == "partly"
    assert judged_against_baselines(unclear, unclear)[0] == "not reproduced"
    assert judged_positives(better, measured(0.7, 0.2, 0.9))[0] == "reproduced"
    assert judged_positives(unclear, measured(0.7, 0.2, 0.9))[0] == "partly"
    assert judged_positives(unclear, measured(0.1, -0.4, 0.6))[0] == "not reproduced"
    assert judged_positives(better, None) == (
        "reproduced",
        "Criterion: 8 positives are better than one, over the whole interval. It holds.",
    )
    assert judged_positives(unclear, None)[0] == "not reproduced"
    both = [better, better]
    alike = [[unclear] * 3] * 2
    assert judged_errors(both, both, alike, [1.0, 2.0])[0] == "reproduced"
    assert judged_errors([better, unclear], both, alike, [1.0, 2.0])[0] == "partly"  # by one classifier alone
    assert judged_errors(both, [unclear, better], alike, [1.0, 2.0])[0] == "partly"
    for place in range(3):  # whichever two differ without augmentation, by one classifier alone
        apart = [better if pair == place else unclear for pair in range(3)]
        verdict, words = judged_errors(both, both, [[unclear] * 3, apart], [1.0, 2.0])
        assert verdict == "partly"
        assert "zero in its interval: yes / no" in words
    none = [unclear, unclear]
    assert judged_errors(none, none, [[better] * 3] * 2, [-1.0, -1.0])[0] == "not reproduced"
    near, far = (Closeness("SupCon", True, 0, training, 0.2, 0.9, 3.0, 3.0) for training in (0.05, 0.3))
    closer, grows, flat = measured(-0.1, -0.15, -0.05), measured(0.5, 0.1, 0.8), measured(0.1, -0.1, 0.8)
    assert judged_closeness(closer, [grows, grows], [near])[0] == "reproduced"
    assert judged_closeness(closer, [grows, grows], [near, far])[0] == "partly"
    assert judged_closeness(unclear, [grows, grows], [near])[0] == "partly"
    assert judged_closeness(closer, [grows, flat], [near])[0] == "partly"
    assert judged_closeness(unclear, [flat, flat], [far])[0] == "not reproduced"
    assert "takes all runs as independent: with 3 objectives" in judged_closeness(closer, [grows, grows], [near])[1]
    alike = {(loss, rate): measured(90.0, 89.0, 91.0) for loss in ("sincere", "supcon") for rate in RATES}
    worse = {key: measured(50.0, 45.0, 55.0) if key[1] >= 1 else found for key, found in alike.items()}
    assert judged_rates(alike)[0] == "partly"
    assert judged_rates(worse)[0] == "reproduced"


def test_a_figure_without_an_interval_settles_no_criterion_that_asks_for_one():
    """As from one seed: it is neither "the interval holds zero" nor "the interval ends below"."""
    alone, better = Measured("difference", 0.0), measured(1.0, 0.5, 1.5)
    both, single = [better, better], [[alone] * 3] * 2
    assert "zero in its interval: no / no" in judged_errors(both, both, single, [1.0, 1.0])[1]
    assert (
        "over the whole interval: no / no"
        in judged_errors([Measured("difference", 1.0)] * 2, both, single, [1.0, 1.0])[1]
    )
    assert judged_errors(both, both, single, [1.0, 1.0])[0] == "partly"
    assert judged_against_baselines(alone, alone)[0] == "not reproduced"
    assert judged_positives(alone, alone)[0] == "not reproduced"
    rates = {(loss, rate): Measured("top-1", 90.0) for loss in ("sincere", "supcon") for rate in RATES}
    assert "6 of 6 and 0 of 4 hold" in judged_rates(rates)[1]
    assert covers_zero(alone) is False
    assert wholly_below_zero(Measured("difference", -1.0)) is False


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_figures_that_are_no_numbers_never_come_to_a_verdict(odd):
    for figures in ((odd,), (0.0, odd, 1.0), (0.0, -1.0, odd)):
        with pytest.raises(InputError, match="must be finite"):
            Measured("difference", *figures)


def test_the_whole_interval_is_drawn_also_where_it_ends_at_zero():
    figure = Figure()
    supcon_training._draw_positives(figure, (1, 2, 4), [measured(5.0, 0.0, 10.0)] * 3)
    (bars,) = figure.axes[0].containers
    (segments,) = bars[2]
    ends = {(float(segment[0][1]), float(segment[1][1])) for segment in segments.get_segments()}
    assert ends == {(0.0, 10.0)}


def test_the_set_losss_cost_is_told_for_each_of_the_others():
    same = measured(0.1, -1.0, 1.0)
    told = set_loss.answer([same, same], [measured(13.9, 13.0, 15.0), measured(14.8, 14.0, 16.0)])
    assert told.endswith("takes 13.9 times as long as SINCERE and 14.8 times as long as SupCon.")


@pytest.mark.parametrize("positives", [1, 3, 100])
def test_limited_positives_are_the_equation(positives):
    """A float64 loop: the other view, then the next of the class in the order of the batch, view after view."""
    generator = torch.Generator().manual_seed(positives)
    z = torch.randn(7, 2, 5, generator=generator)
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 0])
    rows = F.normalize(z.transpose(0, 1).reshape(14, 5).double(), dim=1).numpy()
    classes, sample = np.tile(labels.numpy(), 2), np.tile(np.arange(7), 2)
    total = 0.0
    for t in range(14):
        order = [i for i in range(14) if sample[i] == sample[t] and i != t]
        order += [i for i in ((t + step) % 14 for step in range(1, 14)) if classes[i] == classes[t] and i not in order]
        kept = order[:positives]
        others = [i for i in range(14) if classes[i] != classes[t]]
        s = rows @ rows[t] / 0.2
        total += np.log(np.exp(s[kept + others]).sum()) - s[kept].mean()
    found = LimitedPositives(temperature=0.2, positives=positives)(z, labels)
    assert float(found) == pytest.approx(total / 14, rel=1e-5)
    if positives == 100:
        assert float(found) == pytest.approx(float(SF.supcon(z, labels, temperature=0.2)), rel=1e-5)


def test_results_that_were_tampered_with_are_refused(tmp_path):
    result = ClaimResult(8, "table-1", "quick", "s", "s", "p", "o", "partly", "r", (measured(1.0),), 1.0, {})
    text = result.to_json()
    assert ClaimResult.from_json(text) == result
    for broken in ("[]", "{", json.dumps({"format": "other"}), text.replace('"partly"', '"certainly"')):
        with pytest.raises((InputError, OptionError)):
            ClaimResult.from_json(broken)
    with pytest.raises(InputError, match="must be finite"):
        replace(result, measured=(measured(float("nan")),)).to_json()


def test_pages_show_what_is_kept():
    spec = importlib.util.spec_from_file_location("write_pages", ROOT / "reproduce" / "write_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    results, forms = kept_results(ROOT / "reproduce"), kept_forms(ROOT / "reproduce")
    page = pages.PAGE.read_text()
    assert page == pages.page(forms), "run python reproduce/write_pages.py"
    assert pages.README.read_text() == pages.with_table(pages.README.read_text(), results)
    assert "**Claim 5.** log|N| − loss" in page  # a formula has no capital
    assert "**Claim 6.** SINCERE takes" in page
    assert "**Claim 12.** Both losses" in page
    marked = {result.form for result in results.values()} - {"full"}
    assert all(f'marked "{form} form"' in pages.README.read_text() for form in marked)
    assert ('"quick form"' in pages.README.read_text()) == ("quick" in marked)
    for result in (result for found in forms.values() for result in found):
        assert "/" not in result.provenance["command"].partition(" ")[0], "a path of somebody's machine"
        # Of smaller forms the fast one is shown as well: it has real images and several seeds.
        shown = result.form == "fast" or result is forms[result.number][0]
        assert (f"reproduce/{result.name}/{result.form}.png" in page) == shown, result.name


def test_the_table_has_one_or_two_figures_of_a_claim_whose_words_it_knows():
    """Of every result that is kept: a figure that was renamed would leave its row to whatever comes first."""
    forms = kept_forms(ROOT / "reproduce")
    for claim in CLAIMS:
        for result in forms[claim.number]:
            told = claim.told_by(result.measured)
            assert 1 <= len(told) <= 2, (claim.name, result.form)
            patterns = [claim.decisive] if isinstance(claim.decisive, str) else claim.decisive
            meant = [all(re.search(pattern, one.what) for one in told) for pattern in patterns]
            assert any(meant) or not patterns, claim.name
    renamed = (measured(1.0), measured(2.0))
    assert find_claim("table-1").told_by(renamed) == renamed[:1]
    assert find_claim("table-1").told_by(()) == ()
    rows = markdown_table({number: found[0] for number, found in forms.items()}, page="").splitlines()
    lines = {int(row.split(" | ")[0].strip("| ")): row for row in rows[2:]}
    assert "cifar10 SINCERE, last epoch **0.3322**<br>cifar10 SupCon, last epoch **4.709** | 0.24<br>4.69" in lines[8]
    assert "cifar10 top-1, SINCERE − SupCon **0.28 points** (−0.12 to 0.66) | no significant difference" in lines[11]
    assert "[both losses confuse the same classes](#figure-a1)" in lines[12]
    assert max(len(row.split(" | ")[2]) for row in rows[2:]) < 220  # three lines of a narrow column for each of two


def test_the_list_fits_a_terminal():
    kept = kept_results(ROOT / "reproduce")
    lines = list(listing(kept, width=80))
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(line[31:].split()) for line in lines)
    for claim in CLAIMS:
        (first,) = (place for place, line in enumerate(lines) if line.startswith(f"{claim.number:>2}  {claim.name} "))
        assert lines[first + 1].split("  ")[2] == f"{kept[claim.number].verdict}, {kept[claim.number].form}"
        assert claim.statement in words
    assert len(list(listing(kept))) == 1 + len(CLAIMS)  # for a program that takes lines
    assert next(iter(listing(kept, width=10))).endswith("with one positive")  # narrower than its names


def test_full_runs_are_shown_and_counted_until_all_are_made(tmp_path):
    """One of four, each of which the claims share; nothing is said where there is none."""
    sys.path.insert(0, str(ROOT / "reproduce"))
    import full_runs

    table_1, figure_2, gradient = map(find_claim, ("table-1", "figure-2", "gradient"))
    assert full_runs.told(table_1, tmp_path) is None
    assert list(full_runs.section(CLAIMS, tmp_path)) == []
    first, second = "cifar10-sincere-0", "cifar10-supcon-0"
    shutil.copytree(ROOT / "reproduce" / "light-runs" / first, tmp_path / "light-runs" / first)
    assert "1 of 4" in full_runs.told(table_1, tmp_path)
    assert "1 of 2" in full_runs.told(figure_2, tmp_path)  # of CIFAR-10 alone
    assert full_runs.told(gradient, tmp_path) is None
    _, words, *_, row, end = full_runs.section(CLAIMS, tmp_path)
    assert "1 of 4 so far" in words
    light = Trained(RunFolder(tmp_path / "light-runs" / first))
    losses = light.epoch_losses()
    assert row.startswith(f"| `{first}` | {losses[0]:.2f} → {losses[-1]:.2f} | 6.82 → 0.24 |")
    assert " | 95.93 | " in row
    assert not end
    assert list(full_runs.section([gradient], tmp_path)) == []
    shutil.copytree(ROOT / "reproduce" / "light-runs" / second, tmp_path / "light-runs" / second)
    assert "2 of 4" in full_runs.told(table_1, tmp_path)
    assert full_runs.told(figure_2, tmp_path) is None
    _, words, _, _, *rows, _ = full_runs.section([figure_2], tmp_path)
    assert "so far" not in words
    assert len(rows) == 2


def test_top_1_is_told_beside_the_papers_where_it_has_one():
    found = [
        Measured("cifar10 SINCERE top-1, %", 95.0, 94.5, 95.5, "1 seed", "95.93"),
        Measured("cifar10 SINCERE top-5, %", 99.0, 98.5, 99.5, "1 seed", "99.78"),
        Measured("cifar100 SupCon top-1, %", 76.0, 75.5, 76.5, "1 seed", "75.96"),
    ]
    assert "is −0.93 to 0.04 points" in beside_the_paper(found)
    assert beside_the_paper([replace(one, paper=None) for one in found]) == ""


def test_full_forms_are_the_papers_runs(tmp_path):
    data = {"cifar10": "ten.tar.gz", "cifar100": "hundred.tar.gz"}
    conditions = Conditions("full", 0, Laboratory(tmp_path), data)
    ten, hundred = experiments(conditions)
    for one, classes in ((ten, 10), (hundred, 100)):
        expected = find_recipe(f"supcon-cifar{classes}-resnet18").config
        source = f"cifar{classes}:{data[f'cifar{classes}']}"
        assert one.config("supcon", 0) == replace(expected, data=replace(expected.data, source=source))
        assert one.rows_of_a_batch == 1024
    graf = graf_objectives.experiment(conditions)
    assert graf.plain.data.source == "cifar100:hundred.tar.gz"
    build_views("plain", kind="image", statistics=Statistics((0.5,) * 3, (0.2,) * 3), **graf.plain.views.options)


def test_tables_of_two_data_sets_take_one_and_say_so(tmp_path):
    """Each CIFAR set takes an hour and more of a GPU: what is there of one is worth keeping."""
    table, picture = find_claim("table-2"), find_claim("figure-2")
    for name in ("cifar10", "cifar100"):
        conditions = Conditions("full", 0, Laboratory(tmp_path), {name: "archive.tar.gz"})
        table.check_data(conditions)
        found = experiments(conditions)
        assert [one.data for one in found] == [name]
        verdict, reason = as_far_as_run("reproduced", "It holds.", found)
        assert verdict == "partly"
        there, missing = ("CIFAR-10", "CIFAR-100") if name == "cifar10" else ("CIFAR-100", "CIFAR-10")
        assert reason == f"It holds. On {there} alone: {missing} was not run."
        assert as_far_as_run("not reproduced", "", found)[0] == "not reproduced"
    with pytest.raises(InputError, match="needs cifar10"):
        picture.check_data(conditions)  # which is of CIFAR-10 alone
    both = Conditions("full", 0, Laboratory(tmp_path), {"cifar10": "a", "cifar100": "b"})
    assert as_far_as_run("reproduced", "It holds.", experiments(both)) == ("reproduced", "It holds.")
    quick = Conditions("quick", 0, Laboratory(tmp_path))
    assert as_far_as_run("reproduced", "It holds.", experiments(quick)) == ("reproduced", "It holds.")


def test_fast_forms_have_the_papers_settings_and_a_small_network(tmp_path, monkeypatch):
    data = {"cifar10": "ten.tar.gz", "cifar100": "hundred.tar.gz"}
    fast, full = (experiments(Conditions(form, 0, Laboratory(tmp_path), data)) for form in ("fast", "full"))
    for small, large in zip(fast, full, strict=True):
        changed = {line.partition(":")[0] for line in small.config("supcon", 0).differences(large.config("supcon", 0))}
        assert {name.partition(".")[0] for name in changed} == {"encoder", "schedule", "compute", "epochs"}
        assert small.seeds == (0, 1, 2)
        assert small.data == large.data  # so that the paper's figures stand beside ours
    asked, evaluated = [], []
    made = SimpleNamespace(evaluation=evaluated.append)
    monkeypatch.setattr(Laboratory, "trained", lambda self, name, config: asked.append(name) or made)
    assert fast[0].run("sincere", 1) is made
    assert asked == ["cifar10-fast-sincere-1"]  # never taken for a run of the full form
    assert [one.methods for one in evaluated] == [("knn", "class_means", "linear")]  # so that it can be made light
    graf = graf_objectives.experiment(Conditions("fast", 0, Laboratory(tmp_path), data))
    assert graf.plain.encoder.name == "short_cnn"
    assert graf.plain.epochs == 40


def test_the_readmes_cosines_are_those_that_were_measured():
    """The sentence above the picture of both spaces is written by hand."""
    kept = ClaimResult.from_json((ROOT / "reproduce" / "figure-2" / "full.json").read_text(encoding="utf-8"))
    cosine = {one.what: f"{one.value:.2f}".replace("-", "−") for one in kept.measured}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    between = f"with SupCon the mean cosine between classes is {cosine['SupCon between']}"
    assert f"{between}, with SINCERE {cosine['SINCERE between']}." in readme
    assert f"Within classes it is {cosine['SupCon within']} and {cosine['SINCERE within']}:" in readme


def test_the_page_of_the_set_loss_has_the_figures_of_its_claim():
    kept = ClaimResult.from_json((ROOT / "reproduce" / "set-loss" / "fast.json").read_text(encoding="utf-8"))
    found = {one.what: one for one in kept.measured}
    page = (ROOT / "docs" / "set-loss.md").read_text(encoding="utf-8")
    change = found["set loss − SINCERE, points"]
    low, high = (f"{end:.2f}".replace("-", "−") for end in change.ends)
    assert f"{-change.value:.2f} points less by a linear classifier, 95 % interval {low} to {high}" in page
    between = [f"{found[f'{loss}, cosine between classes'].value:.2f}" for loss in ("set loss", "SINCERE", "SupCon")]
    ours, sincere, supcon = (text.replace("-", "−") for text in between)
    assert f"between classes is {ours}, where SINCERE has {sincere} and SupCon {supcon}" in page
    assert f"took {found['time of a step, set loss / SINCERE'].value:.1f} times as long as SINCERE at 1,024" in page
