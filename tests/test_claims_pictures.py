"""Pictures of claims: what is the same has one colour, what is written lies on the paper."""

from itertools import pairwise
from types import SimpleNamespace

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from sincere.claims import encoder_share, information, open_optimum
from sincere.claims.pictures import draw_intervals
from sincere.claims.record import Measured


def paper(draw):
    """A figure of the size in which claims are kept, drawn."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    figure.canvas.draw()
    return figure


def titles(figure):
    return [axis.title.get_window_extent() for axis in figure.axes]


def test_a_loss_has_its_colour_in_every_picture():
    """On the page of claims SINCERE was vermilion in one picture, and SupCon blue in another."""
    rows = (
        "banking77 SINCERE, top-1 %",
        "fsdd SINCERE, top-1 %",
        "SupCon, top-1 %",
        "cross-entropy, top-1 %",
        "L_in, %",
    )
    figure = paper(lambda figure: draw_intervals(figure, [Measured(one, 1.0, 0.0, 2.0) for one in rows], "%"))
    dots = [to_hex(line.get_color()) for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert dots[:4] == ["#0072b2", "#0072b2", "#d55e00", "#009e73"]
    assert dots[4] not in dots[:4]  # of no one loss


def test_the_bounds_stand_in_order_with_their_titles_whole():
    """Four of them: the last title was cut off at the margin."""

    def curve(divergence):
        point = SimpleNamespace(negatives=4, bound=0.1, error=0.01)
        return SimpleNamespace(divergence=divergence, of=lambda loss: [point])

    figure = paper(lambda figure: information._draw_kl_bound(figure, [curve(one) for one in (0.5, 2.0, 4.5, 0.125)]))
    assert [axis.get_title() for axis in figure.axes] == [f"KL = {one} nats" for one in ("0.125", "0.5", "2", "4.5")]
    boxes = titles(figure)
    assert boxes[-1].x1 < figure.bbox.x1
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_titles_of_other_similarities_lie_on_the_paper():
    scales = [1.0] * len(open_optimum.SCALES)
    of = lambda similarity, space: SimpleNamespace(value=1.0)  # noqa: E731
    one = {"counts": (15,) * 4, "classes": 4, "of": of, "dot_by_scale": scales, "euclidean_by_scale": scales}
    found = [SimpleNamespace(loss=loss, **one) for loss in open_optimum.LOSSES]
    figure = paper(lambda figure: open_optimum._draw_similarities(figure, found, {one.loss: one for one in found}))
    left, right = titles(figure)
    assert left.x0 > 0
    assert left.x1 < right.x0
    assert right.x1 < figure.bbox.x1


def test_times_on_a_scale_without_zero_are_no_bars():
    """A bar's length says how much: of logarithms it says nothing."""
    found = SimpleNamespace(
        encoder=[0.14, 0.15], losses={"SINCERE": [0.001, 0.002], "SupCon": [0.001, 0.003]}, images=16
    )
    figure = paper(lambda figure: encoder_share._draw(figure, found))
    (axis,) = figure.axes
    assert axis.get_xscale() == "log"
    assert not axis.patches
    texts = {one.get_text(): one.get_window_extent() for one in axis.texts}
    assert {"0.145 s", "0.0015 s", "0.002 s", "a tenth of\nthe encoder"} == set(texts)
    assert all(axis.bbox.x0 < box.x0 and box.x1 < figure.bbox.x1 and box.y0 > axis.bbox.y0 for box in texts.values())
