"""Write the table of docs/fast-cifar.md from the kept rows of benchmarks/cifar_search.py.

python benchmarks/search_page.py
"""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "benchmarks" / "results" / "NVIDIA-H200" / "cifar_search.csv"
PAGE = ROOT / "docs" / "fast-cifar.md"
START, END = "<!-- search: start, written by benchmarks/search_page.py -->", "<!-- search: end -->"
DEFAULTS = {"batches.size": "512", "epochs": "100"}
# What most rows share, and the words for the rest.
COMMON = {
    "compute.compile", "compute.channels_last", "compute.precision", "schedule.warmup_epochs", "batches.sampler",
    "batches.drop_last", "optimizer.nesterov",
}  # fmt: skip
WORDS = {
    "encoder.name": "encoder", "batches.size": "batch", "views.count": "views", "optimizer.lr": "lr",
    "optimizer.weight_decay": "decay", "loss.temperature": "τ", "optimizer.name": "optimizer",
    "optimizer.momentum": "momentum", "optimizer.others": "others", "optimizer.others_lr": "others' lr",
    "head.layers": "head", "encoder.options.activation": "activation", "encoder.options.stem": "stem",
    "views.options.flip.alternate": "alternate flips", "optimizer.decay": "decay of",
    "views.early_size": "early size", "views.early_share": "early share",
}  # fmt: skip


def settings(row: dict[str, str]) -> dict[str, str]:
    """The last word counts where a setting is given twice; rows leave out what is a default."""
    return DEFAULTS | dict(word.split("=", 1) for word in row["variant"].split())


def words(found: dict[str, str]) -> str:
    told = [f"{WORDS.get(name, name)} {value}" for name, value in found.items() if name not in COMMON | {"epochs"}]
    return ", ".join(told)


def table(rows: list[dict[str, str]]) -> str:
    """CIFAR-10 and then CIFAR-100; best first within a number of epochs."""
    rows = sorted(rows, key=lambda row: (row["recipe"], int(settings(row)["epochs"]), -float(row["linear"])))
    lines = [
        "| epochs | settings | linear, % | linear on views, % | class means, % | s an epoch |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        epoch = row["epoch"] if row["alone_on_gpu"] == "yes" else ""
        views = f"{float(row['on_views']):.2f}" if row["on_views"] else "–"
        lines.append(
            f"| {settings(row)['epochs']} | {named(row)}{words(settings(row))} | {float(row['linear']):.2f} | {views} "
            f"| {float(row['class_means']):.2f} | {f'{float(epoch):.2f}' if epoch else '–'} |"
        )
    return "\n".join(lines)


def named(row: dict[str, str]) -> str:
    return "CIFAR-100: " if row["recipe"] == "fast-cifar100" else ""


def page() -> str:
    """The page with its table as the rows have it."""
    with ROWS.open(newline="") as file:
        made = table(list(csv.DictReader(file)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{made}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
