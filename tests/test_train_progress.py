"""What a person sees of a run, on terminals of every width."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import sincere.train.progress as progress
from sincere.train.meter import Reading
from sincere.train.progress import Length, LiveLine, PlainLines, clock

WIDE = Reading(loss=1.23456, excess=1.2201, rate=9120.4)


def drawn(width, monkeypatch, *, reading=WIDE, steps=1000, done=437, epochs=100):
    """The line of a run that does two steps a second, as text."""
    now = 0.0
    screen = Console(width=width, file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr("rich.console.Console", lambda **options: screen)
    monkeypatch.setattr("rich.progress.Progress.start", lambda self: None)  # no thread that draws when it likes
    line = LiveLine(Length(epochs=epochs, steps=steps), 0)
    line.bar.get_time = lambda: now
    for step in range(1, done + 1):
        now = step / 2
        line.tick(step)
    if reading is not None:
        line.reading(done, 44, reading)
    paper = Console(width=width, file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor")
    paper.print(line.bar.get_renderable())
    return paper.export_text()


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (40, ("bar", "43 %", "loss 1.2346", "4:42 left")),
        (60, ("epoch 44/100", "bar", "43 %", "loss 1.2346", "4:42 left")),
        (80, ("epoch 44/100", "bar", "43 %", "loss 1.2346", "excess 1.2201", "4:42 left")),
        (100, ("epoch 44/100", "bar", "43 %", "loss 1.2346", "excess 1.2201", "9,120 samples/s", "4:42 left")),
        (120, ("epoch 44/100", "bar", "43 %", "loss 1.2346", "excess 1.2201", "9,120 samples/s", "4:42 left")),
    ],
)
def test_what_a_line_of_a_width_says(width, words, monkeypatch):
    (line,) = drawn(width, monkeypatch).splitlines()
    assert len(line) <= width
    parts = [re.sub("[━╸╺]+", "bar", part) for part in line.split("  ")]
    assert tuple(part.strip() for part in parts if part.strip()) == words
    assert len(re.search("[━╸╺]+", line)[0]) >= 5


SMALL_FIRST = Length(epochs=10, steps=1000, early=500, cost=0.4)  # 0.2 s a step, and then 0.5 s
TAKEN = {250: 50.0, 750: 225.0}
LEFT = {250: 300.0, 750: 125.0}


@pytest.mark.parametrize("done", [250, 750])
def test_the_time_left_knows_that_smaller_views_come_first(done, monkeypatch, capsys):
    clock_stands_at = [0.0]
    monkeypatch.setattr("sincere.train.progress.perf_counter", lambda: clock_stands_at[0])
    lines = PlainLines(SMALL_FIRST, done=0)
    clock_stands_at[0] = TAKEN[done]
    lines.reading(done, 3, WIDE)
    assert f"{clock(LEFT[done])} left" in capsys.readouterr().err


def test_the_live_line_moves_at_one_speed_through_small_and_full_views(monkeypatch):
    monkeypatch.setattr("rich.progress.Progress.start", lambda self: None)
    now = 0.0
    line = LiveLine(SMALL_FIRST, 0)
    line.bar.get_time = lambda: now
    task = line.bar.tasks[0]
    for step in range(1, 751):
        now += 0.2 if step <= 500 else 0.5
        line.tick(step)
        if step in LEFT:
            assert task.time_remaining == pytest.approx(LEFT[step], rel=0.01)
            assert task.percentage == pytest.approx(100 * TAKEN[step] / 350)


@given(
    width=st.integers(40, 200),
    loss=st.floats(-1e30, 1e30),
    excess=st.none() | st.floats(-1e30, 1e30),
    rate=st.floats(0, 1e8),
    epochs=st.integers(44, 100_000),
)
def test_percentage_loss_and_time_are_always_there(width, loss, excess, rate, epochs):
    with pytest.MonkeyPatch.context() as patch:
        text = drawn(width, patch, reading=Reading(loss, excess, rate), done=20, steps=100_000, epochs=epochs)
    (line,) = text.splitlines()
    assert len(line) <= width
    assert "…" not in line
    found = re.search(r"(^|  )0 %  loss (-?[\d.]+(e[+]\d\d)?)  .*?13:53:10 left *$", line)
    assert found, line
    assert float(found[2]) == pytest.approx(loss, rel=1e-3, abs=1e-4)


def test_before_the_first_reading_and_on_a_tiny_terminal(monkeypatch):
    (line,) = drawn(60, monkeypatch, reading=None, done=0).splitlines()
    assert line.startswith("epoch –/100  ━")
    assert line.rstrip().endswith("0 %  -:-- left")
    (line,) = drawn(24, monkeypatch).splitlines()
    assert line.split() == ["43", "%", "1.2346", "4:42"]


def test_numbers_and_clocks():
    assert progress.said(Reading(-0.00001, None, 0.4)) == {"loss": "loss -0.0000", "rate": "0 samples/s"}
    assert progress.said(Reading(9999.99996, 12345.6, 1e6))["excess"] == "excess 1.235e+04"
    assert (clock(59.6), clock(3723), clock(-1)) == ("1:00", "1:02:03", "0:00")
