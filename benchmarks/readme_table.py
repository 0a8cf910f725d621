"""Write tables of speed and memory into README.md and docs/backends.md, between two markers, and draw the chart.

Everything comes from the results in benchmarks/results, for a GPU from the newest run that left nothing out, and from
tables that were run alone since.

    python benchmarks/readme_table.py
"""

import csv
from pathlib import Path

import gpu_results
import gpu_tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CHART = ROOT / "docs" / "figures" / "gpu_speed"
START, END = "<!-- figures: start, written by benchmarks/readme_table.py -->", "<!-- figures: end -->"
VARIANTS_START = "<!-- variants: start, written by benchmarks/readme_table.py -->"
VARIANTS_END = "<!-- variants: end -->"
LABELS = {
    "ours SINCERE": "**`sincere`, SINCERE**",
    "ours SupCon": "**`sincere`, SupCon**",
    "authors' SINCERE": "SINCERE, its authors' code",
    "authors' SupCon": "SupCon, its authors' code",
    "pytorch-metric-learning SupCon": "SupCon, a library",
    "eager SINCERE": "SINCERE as short n×n code",
    "eager SupCon": "SupCon as short n×n code",
    "compiled dense SINCERE": "SINCERE as n×n code under torch.compile",
    "three products": "three n×n×d matrix products and nothing else",
}


def rows_of(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open() as file:
        return list(csv.DictReader(file))


def speed_and_memory() -> str:
    """Batches of several sizes against others' code and the code people write, as ratios of one run."""
    speed = {(row["candidate"], int(row["n"])): row for row in rows_of("cpu_speed.csv")}
    memory = {row["candidate"]: row for row in rows_of("cpu_memory.csv") if row["n"] == "4096"}
    sizes = sorted({n for _, n in speed})
    first = speed["ours SINCERE", sizes[-1]]
    lines = [
        f"Forward + backward of n float32 embeddings, d = {first['d']}, {first['classes']} classes, on "
        f"{first['threads']} cores of an {first['processor']}: time as a multiple of ours, and peak memory beyond the "
        f"batch (torch {first['torch']}, seed {first['seed']}, median of {first['rounds']} interleaved rounds or more; "
        "`make bench`, which takes the authors' code too where [it is told where that is](benchmarks/README.md)):",
        "",
        f"| | {' | '.join(f'n = {n:,}' for n in sizes)} | memory, n = 4,096 |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for name, label in LABELS.items():
        found = [speed.get((name, n)) for n in sizes]
        last = found[-1]
        if last is None:
            continue
        version = f" ({last['source']})" if last["source"] else ""
        times = ["–" if row is None else f"{float(row['ratio']):.2f}" for row in found]
        extra = f"{float(memory[name]['extra_mib']):.0f} MiB" if name in memory else "–"
        lines.append(f"| {label}{version} | {' | '.join(times)} | {extra} |")
    return "\n".join(lines)


def growth() -> str:
    """Time grows as n², memory as n."""
    rows = rows_of("cpu_scaling.csv")
    cells = [
        ["n", *(f"{int(row['n']):,}" for row in rows)],
        ["seconds", *(f"{float(row['median_s']):.2g}" for row in rows)],
        ["extra MiB", *(f"{float(row['extra_mib']):.0f}" for row in rows)],
    ]
    header, *body = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join(
        ["And as the batch grows (same settings, `make bench-large`):", "", header, "|---" * len(cells[0]) + "|", *body]
    )


def gpu_rows() -> list[gpu_results.Row]:
    """The newest of each table, whatever the GPU; none where only older kernels were timed, whose rows have no run's
    name."""
    every = [row for file in RESULTS.glob("*/gpu_speed.csv") for row in gpu_results.read(file)]
    return gpu_results.newest_tables([row for row in every if row["run"]])


def gpu() -> str:
    """A GPU's table and chart."""
    rows = gpu_rows()
    if not rows:
        return "On a GPU: [docs/backends.md](docs/backends.md)."
    chart = "![Time of a step against the number of embeddings](docs/figures/gpu_speed.svg)"
    more = "Precisions, widths, classes and the set loss: [docs/backends.md](docs/backends.md)."
    return "\n\n".join([gpu_tables.caption(rows), gpu_tables.comparison(rows), chart, more])


def figures() -> str:
    """What stands in the README."""
    return "\n\n".join([START, speed_and_memory(), growth(), gpu(), END])


def gpu_figures() -> str:
    """What stands in docs/backends.md."""
    rows = gpu_rows()
    if not rows:
        return f"{START}\n\n{END}"
    chart = "![Time of a step against the number of embeddings](figures/gpu_speed.svg)"
    parts = [gpu_tables.caption(rows), gpu_tables.comparison(rows), chart, gpu_tables.details(rows)]
    return "\n\n".join([START, *parts, END])


def variants() -> str:
    """What stands in docs/gpu-kernels.md: the fastest tile of each variant of the loop over negatives."""
    rows = rows_of("NVIDIA-H200/gpu_variants.csv")
    sizes = sorted({int(row["n"]) for row in rows})
    lines = [f"| loop over negatives, ms ({rows[0]['gpu']}) | " + " | ".join(f"n = {n:,}" for n in sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for name in dict.fromkeys(row["variant"] for row in rows):
        best = [min(float(r["ms"]) for r in rows if r["variant"] == name and int(r["n"]) == n) for n in sizes]
        lines.append(f"| {name} | " + " | ".join(f"{ms:.3g}" for ms in best) + " |")
    return "\n".join([VARIANTS_START, *lines, VARIANTS_END])


def write_between_markers(page: Path, text: str) -> None:
    start, end = text.splitlines()[0], text.splitlines()[-1]
    before, rest = page.read_text().split(start)
    _, after = rest.split(end)
    page.write_text(before + text + after)


def main() -> None:
    from gpu_chart import draw

    write_between_markers(ROOT / "README.md", figures())
    write_between_markers(ROOT / "docs" / "backends.md", gpu_figures())
    write_between_markers(ROOT / "docs" / "gpu-kernels.md", variants())
    if rows := gpu_rows():
        draw(rows, CHART)


if __name__ == "__main__":
    main()
