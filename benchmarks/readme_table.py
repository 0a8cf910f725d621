"""Write the README's table of speed and memory from the newest results, between its two markers.

python benchmarks/readme_table.py
"""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
START, END = "<!-- figures: start, written by benchmarks/readme_table.py -->", "<!-- figures: end -->"


def rows_of(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open() as file:
        return list(csv.DictReader(file))


def speed_and_memory() -> str:
    """One batch of 4,096 against the code people write, as ratios of one run."""
    speed = {row["candidate"]: row for row in rows_of("cpu_speed.csv")}
    memory = {row["candidate"]: row for row in rows_of("cpu_memory.csv") if row["n"] == "4096"}
    first = speed["ours SINCERE"]
    lines = [
        f"Forward + backward of n = {int(first['n']):,} float32 embeddings, d = {first['d']}, "
        f"{first['classes']} classes, on {first['threads']} cores of an {first['processor']} "
        f"(torch {first['torch']}, seed {first['seed']}, median of {first['rounds']} interleaved rounds; "
        "p20 to p80 of the ratio in brackets; `make bench`):",
        "",
        "| | time, × ours | extra memory |",
        "|---|---|---|",
    ]
    names = ["ours SINCERE", "ours SupCon", "eager SINCERE", "eager SupCon", "compiled dense SINCERE", "three products"]
    labels = {
        "ours SINCERE": "**`sincere`, SINCERE**",
        "ours SupCon": "**`sincere`, SupCon**",
        "eager SINCERE": "SINCERE as n×n code",
        "eager SupCon": "SupCon as n×n code",
        "compiled dense SINCERE": "SINCERE as n×n code under torch.compile",
        "three products": "three n×n×d matrix products and nothing else",
    }
    for name in names:
        row = speed[name]
        extra = f"{float(memory[name]['extra_mib']):.0f} MiB" if name in memory else "–"
        spread = "" if name == names[0] else f" ({float(row['ratio_p20']):.1f}–{float(row['ratio_p80']):.1f})"
        lines.append(f"| {labels[name]} | {float(row['ratio']):.2f}{spread} | {extra} |")
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


def gpu() -> str:
    """The largest batches on a GPU."""
    rows = {(row["candidate"], row["n"]): row for row in rows_of("NVIDIA-H200/gpu_speed.csv")}
    ours, eager = rows["ours SINCERE, triton", "16384"], rows["eager SINCERE", "16384"]
    large = rows["ours SINCERE, triton", "65536"]
    return (
        f"On an {ours['gpu']} (bfloat16, 10 classes, `make bench-gpu`): n = 16,384 in {float(ours['ms']):.1f} ms and "
        f"{float(ours['extra_MiB']):.0f} MiB where n×n code takes {float(eager['ms']):.0f} ms and "
        f"{float(eager['extra_MiB']) / 1024:.1f} GiB; n = 65,536 in {float(large['ms']):.1f} ms and "
        f"{float(large['extra_MiB']):.0f} MiB ([more](docs/backends.md))."
    )


def figures() -> str:
    return "\n\n".join([START, speed_and_memory(), growth(), gpu(), END])


def main() -> None:
    page = ROOT / "README.md"
    text = page.read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    page.write_text(before + figures() + after)


if __name__ == "__main__":
    main()
