"""Results of GPU runs: rows are added and never lost, and the tables show the newest whole run."""

import csv
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def row(run, candidate="ours SINCERE", n=1024, **more):
    return {
        "run": run, "scope": "full", "table": "main", "candidate": candidate, "n": n, "d": 128, "classes": 10,
        "dtype": "bfloat16", "matmul_precision": "highest", "steps": 5, "ms": 0.5, "p20": 0.4, "p80": 0.6,
        "extra_MiB": 20.0, "TFLOP/s": 400.0, "share_of_floor": 0.5063, "gpu": "GPU X", "torch": "2", "triton": "3",
        "commit": "0123456789", "date": "2026-11-15", "seed": 0, **more,
    }  # fmt: skip


def test_rows_are_added_once_and_none_is_lost(tmp_path):
    import gpu_results

    file = tmp_path / "folder" / "gpu_speed.csv"
    assert gpu_results.append(file, [row("1"), row("1", n=4096)]) == 2
    assert gpu_results.append(file, [row("1"), row("2")]) == 1
    assert [(r["run"], r["n"]) for r in gpu_results.read(file)] == [("1", "1024"), ("1", "4096"), ("2", "1024")]
    with pytest.raises(ValueError, match="got also speed"):
        gpu_results.append(file, [{"speed": 1}])


def test_an_older_file_gets_the_new_columns(tmp_path):
    import gpu_results

    file = tmp_path / "gpu_speed.csv"
    file.write_text('candidate,n,ms\n"ours, old",1024,2.5\n')
    assert gpu_results.append(file, [row("1")]) == 1
    old, new = gpu_results.read(file)
    assert (old["candidate"], old["ms"], old["run"]) == ("ours, old", "2.5", "")
    assert new["run"] == "1"
    assert file.read_text().splitlines()[0] == ",".join(gpu_results.COLUMNS)


def test_the_newest_whole_run_is_shown():
    import gpu_results

    rows = [row("", ms=9, scope=""), row("2026-01"), row("2026-02"), row("2026-03", scope="quick")]
    rows = [gpu_results.complete(r) for r in rows]
    assert [r["run"] for r in gpu_results.newest_run(rows)] == ["2026-02"]
    assert [r["run"] for r in gpu_results.newest_run([rows[0], rows[3]])] == ["2026-03"]
    assert [r["ms"] for r in gpu_results.newest_run(rows[:1])] == ["9"]


def test_a_table_that_was_run_alone_since_takes_its_place():
    import gpu_results
    import gpu_tables

    whole = [row("2", n=n, table=table) for table in ("main", "sets") for n in (1, 2)]
    before, after = row("1", scope="only sets", table="sets"), row("3", scope="only sets", table="sets", ms=0.25)
    parts = [row("4", scope="only SINCERE", table="sets"), row("5", scope="only main"), row("6", scope="quick")]
    rows = [gpu_results.complete(r) for r in [before, *whole, after, *parts]]
    found = gpu_results.newest_tables(rows)
    assert [(r["run"], r["table"], r["n"]) for r in found] == [
        ("2", "main", "1"),
        ("2", "main", "2"),
        ("3", "sets", "1024"),
    ]
    details = gpu_tables.details(found)
    assert (
        "The set loss (torch 2, triton 3, commit 0123456, 2026-11-15; `python benchmarks/gpu_speed.py --only sets`):"
        in details
    )
    assert "Every size and precision:" in details
    assert gpu_results.newest_tables(rows[:5]) == gpu_results.newest_run(rows[:5])
    assert gpu_results.newest_tables([]) == []


def test_tables_hold_what_the_rows_hold():
    import gpu_results
    import gpu_tables

    rows = [
        row("1"),
        row("1", n=1_048_576, ms=1550.4, extra_MiB=1536.0),
        row("1", "eager SINCERE", ms=12.34),
        row("1", n=65_536, dtype="float32", matmul_precision="high"),
        row("1", table="widths", d=768, classes=10),
    ]
    rows = [gpu_results.complete(r) for r in rows]
    assert gpu_tables.comparison(rows).splitlines() == [
        "| n | 1,024 | 1,048,576 |",
        "|---|---|---|",
        "| **`sincere`, SINCERE** | 0.500 ms, 20 MiB | 1.55 s, 1.5 GiB |",
        "| SINCERE as n×n code | 12.3 ms, 20 MiB | – |",
        "| share of the floor, SINCERE | 50.6 % | 50.6 % |",
    ]
    details = gpu_tables.details(rows)
    assert (
        "| SINCERE | 65,536 | 128 | 10 | float32, TF32 allowed | 0.500 (0.400–0.600) | 5 | 20 | 400 | 50.6 % |"
        in details
    )
    assert "Other widths" in details
    assert "More classes" not in details
    assert "commit 0123456, 2026-11-15" in gpu_tables.caption(rows)


def test_the_chart_is_drawn_in_light_and_dark(tmp_path):
    pytest.importorskip("matplotlib")
    import gpu_chart
    import gpu_results

    rows = [row("7", name, n, ms=n / 1e3) for name in ("ours SINCERE", "eager SINCERE") for n in (1024, 4096, 16_384)]
    rows = [gpu_results.complete(r) for r in [*rows, row("7", "compiled dense SINCERE", 16_384)]]
    gpu_chart.draw(rows, tmp_path / "chart")
    text = (tmp_path / "chart.svg").read_text()
    assert "<dc:description>run 7</dc:description>" in text
    for light, dark in gpu_chart.DARK.items():
        assert f'[style*="fill: {light}"] {{ fill: {dark} !important }}' in text
    for light in ("#0072b2", "#d55e00", gpu_chart.INK, gpu_chart.PAPER):
        assert f'style="fill: {light}' in text


@pytest.mark.parametrize("longest", ["ours SINCERE", "ours SINCERE, CUDA graph", "pytorch-metric-learning SupCon"])
def test_names_of_lines_stand_within_the_chart(longest, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    import gpu_chart
    import gpu_results

    drawn = []
    monkeypatch.setattr(gpu_chart.plt, "close", drawn.append)
    rows = [row("7", name, n, ms=n / 1e3) for name in ("ours SINCERE", longest) for n in (1024, 16_384, 1_048_576)]
    gpu_chart.draw([gpu_results.complete(r) for r in rows], tmp_path / "chart")
    (figure,) = drawn
    monkeypatch.undo()
    figure.draw_without_rendering()
    (axes,), titles = figure.axes, {series.title for series in gpu_chart.SERIES}
    names = [one for one in axes.texts if one.get_ha() == "right" and one.get_text() in titles]
    assert names
    edge = axes.get_window_extent()
    assert all(one.get_window_extent().x0 >= edge.x0 for one in names), "beyond it stand the times"
    assert min(one.get_window_extent().x0 for one in names) < edge.x0 + 0.03 * edge.width, "and no room is wasted"
    gpu_chart.plt.close(figure)


def test_the_search_page_shows_the_kept_rows():
    import search_page

    assert search_page.page() == search_page.PAGE.read_text(encoding="utf-8")


def test_what_is_said_of_one_minute_is_in_the_kept_rows():
    """Sentences about runs of which some epochs have smaller views, and about those that they are compared with."""
    import search_page

    with search_page.ROWS.open(newline="") as file:
        rows = [(search_page.settings(row), row) for row in csv.DictReader(file) if row["recipe"] == "fast-cifar10"]

    def figures(**asked):
        """Linear, on views and by class means, of the one row with these settings."""
        names = {"size": "views.early_size", "batch": "batches.size", "p": "views.options.trivial.p"}
        wanted = {names.get(name, name): value for name, value in asked.items()} | {"head.layers": "mlp"}
        found = [row for told, row in rows if all(told.get(name) == value for name, value in wanted.items())]
        found = [row for row in found if "optimizer.lr" in row["variant"]]
        (one,) = found
        return [f"{float(one[name]):.2f}" for name in ("linear", "on_views", "class_means")]

    words = search_page.PAGE.read_text(encoding="utf-8")
    assert "112 epochs of this kind end at {} % (linear), {} % (on views) and {} % (class means)".format(
        *figures(epochs="112", size="24", p="0.5")
    ) in words  # fmt: skip
    assert "150 at {}, {} and {} %".format(*figures(epochs="150", size="24")) in words
    at_full_size = figures(epochs="160", **{"optimizer.lr": "0.125"})
    assert "160 at full size at {}, {} and {} %".format(*at_full_size) in words
    small, full = figures(epochs="128", batch="1024", p="0.5"), figures(epochs="100", batch="1024", p="0.5")
    told = "end at {} and {} % (linear), {} and {} % (on views), {} and {} % (class means)"
    assert told.format(*(value for both in zip(small, full, strict=True) for value in both)) in words


def test_the_kept_times_of_an_epoch_are_told():
    """Those of the recipes on the page of training, others on that of the benchmarks."""
    kept = (BENCHMARKS / "results" / "NVIDIA-H200" / "epoch_speed.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(kept.splitlines())
    times = [row["epoch_s"] for row in rows if row["run"].startswith("sincere-cifar10")]
    pages = [BENCHMARKS.parent / "docs" / "training.md", BENCHMARKS / "README.md"]
    told = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert len(times) >= 3
    assert all(f"{float(time):g} s" in told for time in times)


def test_the_page_of_the_set_loss_tells_the_kept_times():
    import gpu_results
    import gpu_tables

    kept = gpu_results.read(BENCHMARKS / "results" / "NVIDIA-H200" / "gpu_speed.csv")
    rows = [row for row in gpu_results.newest_tables(kept) if row["table"] == "sets"]
    times = {(row["candidate"], int(row["n"])): gpu_tables.digits(row["ms"]) for row in rows}
    kernels, without, beside = "ours set loss, whole by kernels", "ours set loss, no kernels", "ours SINCERE beside it"
    page = (BENCHMARKS.parent / "docs" / "set-loss.md").read_text(encoding="utf-8")
    assert (
        f"a step of 1,024 embeddings took {times[kernels, 1024]} ms with them and {times[without, 1024]} ms without, "
        f"one of 16,384 took {times[kernels, 16_384]} ms and {times[without, 16_384]} ms; "
        f"SINCERE beside them {times[beside, 1024]} and {times[beside, 16_384]} ms. "
        f"Recorded as a CUDA graph, 1,024 embeddings took {times['ours set loss, CUDA graph', 1024]} ms"
    ) in page
    assert f"commit {rows[0]['commit'][:7]}" in page
    share = float(times[kernels, 16_384]) / float(times[beside, 16_384])
    of_kernels = (BENCHMARKS.parent / "docs" / "gpu-kernels.md").read_text(encoding="utf-8")
    assert f"at 16,384 embeddings a step is {share:.0f} times one of SINCERE" in of_kernels


def test_the_page_of_the_kernels_tells_what_the_whole_loss_gained():
    import gpu_results

    kept = gpu_results.read(BENCHMARKS / "results" / "NVIDIA-H200" / "gpu_speed.csv")
    both = [row for row in kept if row["table"] == "sets" and row["commit"] == "9c3a89b"]  # later runs have but one
    found = {(row["candidate"].removeprefix("ours set loss, "), int(row["n"])): row for row in both}
    whole, rows = ("whole by kernels", "saddle point")
    small, large = ((found[whole, n], found[rows, n]) for n in (1024, 16_384))
    sentence = (
        f"An H200 takes {float(small[0]['ms']):.2f} ms in place of {float(small[1]['ms']):.2f} for 1,024 embeddings, "
        f"and {float(large[0]['ms']):.1f} ms and {float(large[0]['extra_MiB']):.0f} MiB in place of "
        f"{float(large[1]['ms']):.1f} ms and {float(large[1]['extra_MiB']):.0f} MiB for 16,384 (commit 9c3a89b"
    )
    assert sentence in (BENCHMARKS.parent / "docs" / "gpu-kernels.md").read_text(encoding="utf-8")
