"""The page in a real browser: Chromium, headless, without a network."""

import csv

import pytest
from PIL import Image

from browsing import POINT, Watched, point_at, see, show_run, sideways
from report_subjects import HOSTILE, clouds, hostile, two_runs
from sincere.report import write_report
from sincere.report.subject import subject_of


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Two runs with pictures, a set with hostile names and texts, and a sphere."""
    folder = tmp_path_factory.mktemp("pages")
    subjects = {"runs": two_runs(), "hostile": subject_of(hostile()), "sphere": subject_of(clouds("abcd", dim=3))}
    return {name: write_report(made, folder / f"{name}.html") for name, made in subjects.items()}


@pytest.fixture(scope="module")
def desk(browser, pages):
    """The two runs on a desk; loaded once, as reading plotly takes a second or two."""
    opened = Watched(browser, pages["runs"])
    yield opened
    opened.context.close()


def test_everything_is_there_and_nothing_is_asked_for(desk, pages):
    assert pages["runs"].stat().st_size < 8_000_000
    with desk as page:
        see(page)
        assert page.locator("#comparison figure svg[role=img]").count() == 2
        drawn = page.locator("#panel0 .grid figure")
        assert drawn.count() == 6
        for number in range(drawn.count()):
            box = drawn.nth(number).locator("svg").bounding_box()
            assert min(box["width"], box["height"]) > 100
            assert drawn.nth(number).locator(".verdict").inner_text()
        assert page.locator("#panel0 .plot .main-svg").first.is_visible()
        points = page.evaluate("document.querySelector('.plot').data.map(t => [t.name, (t.customdata || []).length])")
        plain, _ = two_runs()
        wrong = int((~plain.evaluation.correct("knn")).sum())
        assert sum(count for name, count in points) == 120 + wrong
        assert ["classified wrong", wrong] in points
        assert "better than noisy" in page.locator("#comparison .differences").first.inner_text()
        assert page.locator("#panel1 .mistakes > li").count() == 8
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_every_picture_is_saved_three_ways(pages):
    plain, _ = two_runs()
    folder = pages["runs"].with_name("runs_files")
    names = ("accuracy", "class_pairs", "confusion", "map", "similarities", "simplex")
    wanted = [f"{run}-{name}" for run in ("1-plain", "2-noisy") for name in names]
    wanted += ["1-plain-training", "runs", "differences"]
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted(f"{stem}.{ending}" for stem in wanted for ending in ("png", "svg", "csv"))
    for path in folder.glob("*.png"):
        with Image.open(path) as picture:
            assert min(picture.size) > 200
    with open(folder / "1-plain-similarities.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["same-class pairs"]) for row in rows) == plain.geometry.histograms.pairs_within


def test_pointing_at_a_sample_shows_it(desk):
    plain, _ = two_runs()
    with desk as page:
        see(page)
        tip = page.locator("#tip")
        assert not tip.is_visible()
        sample = 17
        point_at(page, sample)
        shown = int(tip.locator("small").inner_text().removeprefix("sample "))
        label = plain.test.class_names[plain.test.labels[shown]]
        assert f"class {label}" in tip.inner_text()
        image = tip.locator(".image")
        assert image.evaluate("e => getComputedStyle(e).backgroundImage").startswith('url("data:image/png')
        assert image.bounding_box()["width"] == 112
        page.mouse.move(5, 5)
        tip.wait_for(state="hidden")
        mistake = int((~plain.evaluation.correct("knn")).nonzero()[0])
        point_at(page, mistake)
        assert tip.locator(".wrong").inner_text().startswith("✗ predicted")


def test_tabs_switch_runs_and_projections(desk):
    with desk as page:
        tabs = page.locator(".tabs [role=tab]")
        assert [tabs.nth(n).get_attribute("aria-selected") for n in range(2)] == ["true", "false"]
        assert not page.locator("#panel1").is_visible()
        tabs.nth(1).click()
        assert page.locator("#panel1").is_visible()
        assert not page.locator("#panel0").is_visible()
        see(page, 1)
        choices = page.locator("#panel1 .choices [role=tab]")
        before = page.evaluate("document.querySelectorAll('.plot')[1].data[0].x[0]")
        other = choices.nth(0 if choices.nth(1).get_attribute("aria-selected") == "true" else 1)
        other.click()
        assert other.get_attribute("aria-selected") == "true"
        assert page.evaluate("document.querySelectorAll('.plot')[1].data[0].x[0]") != before
        page.locator("#panel1 select").select_option(label="3")
        faded = page.evaluate("document.querySelectorAll('.plot')[1].data.filter(t => t.opacity < 0.2).length")
        assert faded == 9
        tabs.nth(1).press("ArrowRight")
        assert page.locator("#panel0").is_visible()
        page.locator(".bar nav a", has_text="Confusions").click()
        page.wait_for_timeout(600)
        assert 0 <= page.locator("#r0-confusion").bounding_box()["y"] < 300


def test_light_and_dark(desk):
    back = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.drawn svg text')).fill"
    with desk as page:
        for scheme, expected in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(back) == expected
            assert page.evaluate(ink) == page.evaluate("getComputedStyle(document.body).color")
            for chosen in ("rgb(255, 255, 255)", "rgb(20, 23, 27)", expected):
                page.locator("#theme").click()
                assert page.evaluate(back) == chosen


def test_a_phone_scrolls_one_way_only(browser, pages):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with Watched(browser, pages["runs"], **phone) as page:
        assert sideways(page) == 0
        show_run(page, 1)
        assert sideways(page) == 0
        see(page, 1)
        for details in page.locator("#panel1 details").all():
            details.evaluate("e => { e.open = true; }")
        assert sideways(page) == 0
        see(page, 1)
        page.touchscreen.tap(*page.evaluate(POINT, [1, 30]))
        page.locator("#tip").wait_for(state="visible")
        box = page.locator("#tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_print_shows_every_run_and_the_still_map(desk):
    with desk as page:
        document = page.pdf(format="A4")
        assert document.startswith(b"%PDF")
        assert len(document) > 50_000
        page.emulate_media(media="print")
        assert page.locator("#panel0").is_visible()
        assert page.locator("#panel1").is_visible()
        assert page.locator("#panel1 .still svg").is_visible()
        assert not page.locator(".plot").first.is_visible()
        assert not page.locator(".bar").is_visible()


def test_without_script_everything_can_still_be_read(browser, pages):
    with Watched(browser, pages["runs"], java_script_enabled=False) as page:
        assert page.locator("#panel1").is_visible()
        assert page.locator("#panel0 .still svg").is_visible()


def test_hostile_names_and_texts_do_nothing(browser, pages):
    watched = Watched(browser, pages["hostile"])
    with watched as page:
        see(page)
        assert page.evaluate("window.hit") is None
        assert page.evaluate("document.querySelectorAll('script').length") == 3
        assert page.evaluate("[...document.images].every(i => i.src.startsWith('data:'))")
        legend = page.locator(".plot .legendtext").all_text_contents()
        assert legend[:3] == [name if len(name) <= 24 else name[:23] + "…" for name in HOSTILE]
        point_at(page, 4)
        assert page.locator("#tip .words").inner_text().startswith(("</script><script>", '"><img src=x'))
        assert page.locator("#tip script, #tip img").count() == 0
        assert any(name in page.locator("#panel0").inner_text() for name in HOSTILE)
        # The second lock: markup that got in by mistake would not run either.
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p onclick=\"window.hit=3\" id=trap>x</p>')")
        page.evaluate("document.getElementById('trap').click()")
        assert page.evaluate("window.hit") is None
        assert "inline event handler violates the following Content Security Policy" in watched.wrong.pop()
        page.set_viewport_size({"width": 390, "height": 844})
        assert sideways(page) == 0


def test_a_long_name_leaves_the_map_its_room(browser, tmp_path):
    names = ("a name that goes on and on " * 10, "🐈" * 40, " ", "short")
    path = write_report(subject_of(clouds(names, dim=6)), tmp_path / "long.html")
    with Watched(browser, path) as page:
        see(page)
        legend = page.locator(".plot .legendtext").all_text_contents()
        assert legend[:4] == ["a name that goes on and…", "🐈" * 23 + "…", "(no name)", "short"]
        shares = "document.querySelector('.plot')._fullLayout"
        assert page.evaluate(f"{shares}.xaxis._length / {shares}.width") > 0.5


def test_names_that_begin_alike_can_be_told_apart_on_the_map(browser, tmp_path):
    names = ("balance_not_updated_after_bank_transfer", "balance_not_updated_after_cheque_or_cash_deposit", "fee")
    path = write_report(subject_of(clouds(names, dim=6)), tmp_path / "alike.html")
    with Watched(browser, path) as page:
        see(page)
        legend = page.locator(".plot .legendtext").all_text_contents()
        assert legend[:3] == ["balance_not_…nk_transfer", "balance_not_…ash_deposit", "fee"]
        marks = page.evaluate("document.querySelector('.plot').layout.annotations.map((one) => one.text)")
        assert marks == ["<b>balance_…ransfer</b>", "<b>balance_…deposit</b>", "<b>fee</b>"]


def test_the_sphere_turns_where_there_is_webgl(browser, pages):
    with Watched(browser, pages["sphere"]) as page:
        see(page)
        page.locator(".plot canvas").first.wait_for()
        assert page.evaluate("document.querySelector('.plot').data.some(t => t.type === 'scatter3d')")
        page.locator(".choices [role=tab]", has_text="PCA").click()
        assert page.locator(".plot canvas").count() == 0
        point_at(page, 3)
        page.set_viewport_size({"width": 390, "height": 844})
        assert sideways(page) == 0


def test_the_sphere_is_a_still_picture_where_there_is_none(browser, pages):
    blind = "HTMLCanvasElement.prototype.getContext = () => null;"
    with Watched(browser, pages["sphere"], before=blind) as page:
        page.locator(".map .still svg").wait_for(state="visible")
        assert "no WebGL" in page.locator(".how").inner_text()
        page.locator(".choices [role=tab]", has_text="Neighbour map").click()
        assert page.locator(".plot .main-svg").first.is_visible()
        assert not page.locator(".map .still").is_visible()
