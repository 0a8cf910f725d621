"""What a reader sees of a report: nothing is covered or cut, also on a phone, on paper and by keyboard."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from browsing import Watched, see, sideways
from report_subjects import clouds, two_runs
from sincere.embeddings import EmbeddingSet
from sincere.report import write_report
from sincere.report.elements import verdict_line
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.comparison import runs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.pictures.simplex import simplex_picture
from sincere.report.projections import point_map
from sincere.report.subject import subject_of
from sincere.report.verdict import Verdict

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NAMES = (
    "Donaudampfschifffahrtsgesellschaftskapitänshund",
    *(f"{animal} that was seen from far away" for animal in ("a cat", "a dog", "a frog", "a horse", "a deer")),
    *("a lorry without a number plate", "an aeroplane, from below", "a ship or a boat"),
)
MARKS = "[...document.querySelectorAll('.plot .annotation')].map((one) => one.getBoundingClientRect().toJSON())"
POINTS = """(() => {
    const plot = document.querySelector(".plot"), { xaxis, yaxis } = plot._fullLayout;
    const box = plot.getBoundingClientRect(), left = box.left + xaxis._offset, top = box.top + yaxis._offset;
    return plot.data.filter((one) => one.customdata).flatMap((one, number) => one.customdata.map(
        (sample, place) => [number, left + xaxis.d2p(one.x[place]), top + yaxis.d2p(one.y[place])]));
})()"""
LAYOUT = "document.querySelector('.plot')._fullLayout"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Nine classes that nothing tells apart, with long names: all islands are one."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.html"
    return write_report(subject_of(clouds(NAMES, dim=6, noise=6.0)), path)


def covered(boxes):
    """Pairs of boxes that share more than a border."""
    return [
        (a, b)
        for place, a in enumerate(boxes)
        for b in boxes[:place]
        if min(a["right"], b["right"]) - max(a["left"], b["left"]) > 1
        and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > 1
    ]


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
def test_names_on_the_map_do_not_cover_each_other(browser, mixed, options):
    with Watched(browser, mixed, **options) as page:
        see(page)
        page.wait_for_timeout(300)
        boxes = page.evaluate(MARKS)
        assert len(boxes) == len(NAMES)
        assert covered(boxes) == []
        page.locator("select").select_option(index=2)  # drawn anew
        page.wait_for_timeout(300)
        assert covered(page.evaluate(MARKS)) == []


@pytest.fixture(scope="module")
def forty():
    """As many islands, and all of them apart."""
    return subject_of(clouds([f"kind {number}" for number in range(40)], dim=64, noise=1.0, per_class=30))


def test_names_of_many_classes_stand_on_the_page_and_hide_no_island(browser, forty, tmp_path):
    with Watched(browser, write_report(forty, tmp_path / "forty.html")) as page:
        see(page)
        page.get_by_role("tab", name="Neighbour map").click()
        page.wait_for_timeout(500)
        boxes = page.evaluate(MARKS)
        assert len(boxes) >= 20
        assert covered(boxes) == []
        told = page.locator(".how").inner_text()
        assert f"{len(boxes)} of 40 classes have their name here." in told or len(boxes) == 40
        points = page.evaluate(POINTS)
        for box in boxes:
            under = [one for one in points if within(one, box)]
            assert len({label for label, _, _ in under}) <= 2, "its own and the edge of another"
            assert len(under) <= 30
        page.get_by_role("tab", name="PCA").click()
        page.wait_for_timeout(500)
        assert len(page.evaluate(MARKS)) < 20, "where classes lie on top of each other, a name would be of several"


def within(point, box):
    _, x, y = point
    return box["left"] < x < box["right"] and box["top"] < y < box["bottom"]


def test_long_names_leave_a_phone_its_map_and_its_width(browser, mixed):
    with Watched(browser, mixed, **PHONE) as page:
        see(page)
        assert page.locator(".mistakes .query").count() > 0
        assert sideways(page) == 0
        assert page.evaluate(f"{LAYOUT}.yaxis._length / {LAYOUT}.height") > 0.5  # the rest is the legend's
        lefts = page.evaluate(
            "[...document.querySelectorAll('.plot .legendtext')].map((e) => e.getBoundingClientRect().left)"
        )
        assert len({round(left) for left in lefts}) == 2  # columns


def test_paper_has_no_handles_of_what_is_closed(browser, mixed):
    with Watched(browser, mixed) as page:
        page.locator("details", has_text="All findings in words").evaluate("one => { one.open = true; }")
        page.emulate_media(media="print")
        assert page.locator("details", has_text="All findings in words").locator("li").first.is_visible()
        assert not page.locator("summary", has_text="Data, settings, versions").is_visible()
        assert not page.locator("h2", has_text="Details").is_visible()
        start = page.locator("#panel0").evaluate("one => getComputedStyle(one).breakBefore")
        assert start == "auto"  # a run by itself had its title alone on the first sheet


def test_the_keyboard_goes_on_from_the_section_that_was_chosen(browser, mixed):
    with Watched(browser, mixed) as page:
        page.locator(".bar nav a", has_text="Confusions").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        inside = "document.activeElement.closest('figure')?.querySelector('h3').textContent"
        assert page.evaluate(inside) == "Confusions"


def test_no_line_of_a_sentence_begins_with_the_sign_for_per_cent():
    line = verdict_line(Verdict("good", "54 % of <b> & 3 %."))
    assert "54&nbsp;% of &lt;b&gt; &amp; 3&nbsp;%." in line


def test_classes_whose_cosines_look_equal_are_not_called_closest_to_themselves():
    """One direction for all, 0.99 everywhere, was "mixed": every class was closest to itself, by some thousandths."""
    random = np.random.default_rng(0)
    labels = np.arange(120) % 2
    rows = 10 * np.eye(6)[0] + random.normal(size=(120, 6)) * 0.5 + 0.9 * np.eye(6)[1] * labels[:, None]
    found = subject_of(EmbeddingSet.from_arrays(rows, labels, class_names=("cat", "dog")))
    (own, other), _ = found.geometry.similarity.means
    assert 0 < own - other < 0.01
    verdict = class_pairs_picture(found).verdict
    assert verdict.grade == "poor"
    assert verdict.sentence.endswith("cat, dog are as close to another class as to themselves.")


def drawn(picture):
    FigureCanvasAgg(picture.figure)
    picture.figure.canvas.draw()
    return picture.figure


def names_on(figure):
    """Names on a drawn map by their axes: (axes, name, left, bottom, right, top)."""
    found = [(one, one.get_window_extent()) for one in figure.texts]
    places = [(np.array([box.x0, box.y0, box.x1, box.y1]), one) for one, box in found]
    of = [next(axes for axes in figure.axes if one.get_transform() == axes.transAxes) for _, one in places]
    return [(axes, one.get_text(), box) for axes, (box, one) in zip(of, places, strict=True)]


def check_apart(names):
    for place, (axes, name, box) in enumerate(names):
        assert (box[:2] >= axes.bbox.extents[:2]).all(), name
        assert (box[2:] <= axes.bbox.extents[2:]).all(), name
        for other, second, taken in names[:place]:
            apart = (box[:2] >= taken[2:]).any() or (taken[:2] >= box[2:]).any()
            assert axes is not other or apart, f"{name} on {second}"


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_no_name_on_a_still_map_covers_another(dim):
    subject = subject_of(clouds(NAMES, dim=dim, noise=6.0))
    found = point_map(subject)
    picture = point_map_picture(subject, found)
    picture.figure.set_dpi(160)  # as it is saved
    names = names_on(drawn(picture))
    check_apart(names)
    for one, axes in zip(found.projections, picture.figure.axes, strict=True):
        count = sum(of is axes for of, _, _ in names)
        assert count >= 6
        assert axes.get_title() == one.title + (f" ({count} of 9 classes named)" if count < 9 else "")


def test_a_still_map_of_many_classes_names_those_that_stand_by_themselves(forty):
    found = point_map(forty)
    picture = point_map_picture(forty, found)
    names = names_on(drawn(picture))
    check_apart(names)
    flat, near = picture.figure.axes
    assert [one.key for one in found.projections] == ["pca", "neighbours"]
    in_each = [sum(axes is part for axes, _, _ in names) for part in (flat, near)]
    assert in_each[0] < 10, "there they lie on top of each other"
    assert in_each[1] >= 30
    assert flat.get_title() == f"PCA ({in_each[0]} of 40 classes named)"
    labels, points = forty.test.labels[found.chosen].numpy(), near.transData.transform(found.projections[1].points)
    for axes, name, box in names:
        if axes is near:
            distance = np.linalg.norm(points - (box[:2] + box[2:]) / 2, axis=1)
            assert forty.test.class_names[labels[distance.argmin()]] == name, "whose island is nearest"
            under = ((points > box[:2]) & (points < box[2:])).all(axis=1)
            assert (under & (labels != forty.test.class_names.index(name))).sum() <= 30 / 4


@pytest.mark.parametrize("name", ["run-{}", "a-run-with-a-long-name-{}"])
def test_the_legend_of_many_runs_lies_within_the_picture(name):
    plain, _ = two_runs()
    figure = drawn(runs_picture([replace(plain, name=name.format(number)) for number in range(5)]))
    box = figure.axes[0].get_legend().get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_names_of_class_means_that_coincide_stand_side_by_side():
    random = np.random.default_rng(0)
    rows = np.eye(5)[0] + 0.01 * random.normal(size=(60, 5))
    found = subject_of(EmbeddingSet.from_arrays(rows, np.arange(60) % 2, class_names=("cat", "dog")))
    figure = drawn(simplex_picture(found))
    first, second = (one.get_window_extent() for one in figure.axes[0].texts)
    assert first.x1 <= second.x0 or second.x1 <= first.x0


@pytest.mark.parametrize(("classes", "share"), [(10, 0.1), (60, 10**-0.5)])
def test_mistakes_show_where_cells_have_no_numbers(classes, share):
    """A tenth of a class is a third of the way to the full colour."""
    names = [str(number) for number in range(classes)]
    figure = confusion_picture(subject_of(clouds(names, dim=16))).figure
    (image,) = figure.axes[0].images
    assert float(image.norm(10.0)) == pytest.approx(share)
