"""Tables of one run on a GPU, as Markdown."""

from collections.abc import Iterable, Sequence

from gpu_results import Row

FLOOR_TFLOPS = 790  # of bfloat16 products on an H200, measured: 6n²d operations at this rate are the floor
TITLES = {
    "ours SINCERE": "**`sincere`, SINCERE**",
    "ours SupCon": "**`sincere`, SupCon**",
    "ours SINCERE, CUDA graph": "**`sincere`, SINCERE, as a CUDA graph**",
    "eager SINCERE": "SINCERE as n×n code",
    "eager SupCon": "SupCon as n×n code",
    "compiled dense SINCERE": "SINCERE as n×n code under torch.compile",
    "pytorch-metric-learning SupCon": "SupCon of pytorch-metric-learning",
    "three products": "three n×n×d matrix products and nothing else",
}
DETAILS = {
    "main": "Every size and precision",
    "widths": "Other widths",
    "classes": "More classes",
    "sets": "The set loss",
    "balanced": "Classes that compete alike",
}


def of_table(rows: Iterable[Row], table: str) -> list[Row]:
    """Rows of one table; those of the first runs, which named none, are of the main one."""
    return [row for row in rows if (row["table"] or "main") == table]


def caption(rows: Sequence[Row]) -> str:
    """What was measured, where and with what."""
    first = rows[0]
    return (
        f"On an {first['gpu']}, forward + backward of bfloat16 embeddings, d = {first['d']}, {first['classes']} "
        "classes: median time, and peak of memory beyond the inputs. n×n code computes in float32, as people run it. "
        f"The floor is 6n²d operations at {FLOOR_TFLOPS} TFLOP/s, what bfloat16 products reach on an H200 "
        f"({origin(first)}, seed {first['seed']}; `make bench-gpu`):"
    )


def origin(row: Row) -> str:
    """Versions, commit and day."""
    told = [f"torch {row['torch']}", f"triton {row['triton']}"]
    told += [f"commit {row['commit'][:7]}"] if row["commit"] not in ("", "unknown") else []
    told += [row["date"]] if row["date"] else []
    return ", ".join(told)


def comparison(rows: Sequence[Row]) -> str:
    """One line a candidate, one column a batch size."""
    main = [row for row in of_table(rows, "main") if row["dtype"] == "bfloat16"]
    sizes = sorted({int(row["n"]) for row in main})
    cells = {(row["candidate"], int(row["n"])): f"{time(row)}, {memory(row)}" for row in main}
    lines = [["n", *(f"{n:,}" for n in sizes)]]
    for name, title in TITLES.items():
        if any((name, n) in cells for n in sizes):
            lines.append([title, *(cells.get((name, n), "–") for n in sizes)])
    shares = {int(row["n"]): share(row) for row in main if row["candidate"] == "ours SINCERE"}
    if any(value != "–" for value in shares.values()):
        lines.append(["share of the floor, SINCERE", *(shares.get(n, "–") for n in sizes)])
    return markdown(lines)


def details(rows: Sequence[Row]) -> str:
    """Spread, rate and share of the floor for everything of ours, one table a question; whence it is, where it was run
    alone."""
    parts = []
    for table, title in DETAILS.items():
        ours = [row for row in of_table(rows, table) if row["candidate"].startswith("ours")]
        if ours:
            header = [
                "",
                "n",
                "d",
                "classes",
                "precision",
                "ms (p20–p80)",
                "steps",
                "extra MiB",
                "TFLOP/s",
                "of the floor",
            ]
            of_its_own = ours[0]["run"] != rows[0]["run"]
            words = (
                f"{title} ({origin(ours[0])}; `python benchmarks/gpu_speed.py --only {table}`)" if of_its_own else title
            )
            parts.append(f"{words}:\n\n{markdown([header, *map(detail, ours)])}")
    return "\n\n".join(parts)


def detail(row: Row) -> list[str]:
    precision = row["dtype"] + (", TF32 allowed" if row["matmul_precision"] == "high" else "")
    spread = f"{digits(row['ms'])} ({digits(row['p20'])}–{digits(row['p80'])})"
    return [
        row["candidate"].removeprefix("ours "), f"{int(row['n']):,}", row["d"], f"{int(row['classes']):,}", precision,
        spread, row["steps"] or "–", f"{float(row['extra_MiB']):,.0f}", digits(row["TFLOP/s"]), share(row),
    ]  # fmt: skip


def time(row: Row) -> str:
    ms = float(row["ms"])
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{digits(row['ms'])} ms"


def digits(number: str) -> str:
    """Three digits, and no exponent."""
    value = float(number)
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2 if value >= 1 else 3
    return f"{value:,.{decimals}f}"


def memory(row: Row) -> str:
    mib = float(row["extra_MiB"])
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def share(row: Row) -> str:
    """The floor over the time it took."""
    value = row["share_of_floor"]
    return f"{100 * float(value):.1f} %" if value else "–"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    header, *body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([header, "|---" * len(lines[0]) + "|", *body])
