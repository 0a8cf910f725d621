"""What Rank-N-Contrast gains on labels that are numbers, beside the same network trained to predict them.

    python benchmarks/regression.py

Scikit-learn's diabetes (442 patients, how far the illness went in a year) and digits (1,797 images, the number shown),
a share of 30 % held out anew for each seed, the same MLP, optimizer, epochs and noise for every way. Trained by L1, the
network predicts; trained by Rank-N-Contrast, the ten nearest embeddings of training samples do. Nothing is tuned on
either. Rows go to benchmarks/results/regression.csv, and the table into docs/losses.md.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import sincere.functional as SF

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "regression.csv", HERE.parent / "docs" / "losses.md"
START, END = "<!-- regression: start, written by benchmarks/regression.py -->", "<!-- regression: end -->"
DATA = {"diabetes": load_diabetes, "digits": load_digits}
WAYS = {
    "L1 on the numbers": None,
    'Rank-N-Contrast, `ties="compete"`': "compete",
    'Rank-N-Contrast, `ties="spared"`': "spared",
}
SEEDS, EPOCHS, BATCH, NOISE, TEMPERATURE, NEIGHBOURS = range(10), 60, 128, 0.1, 0.1, 10


def split(name: str, seed: int) -> list[Tensor]:
    """Training inputs, test inputs, training labels, test labels."""
    inputs, labels = DATA[name](return_X_y=True)
    parts = train_test_split(inputs, labels.astype(float), test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(parts[0])
    scaled = [scaler.transform(part) for part in parts[:2]]
    return [torch.as_tensor(part, dtype=torch.float32) for part in (*scaled, *parts[2:])]


def error(name: str, seed: int, ties: str | None) -> float:
    """Mean absolute error on the held-out samples."""
    inputs, test_inputs, labels, test_labels = split(name, seed)
    torch.manual_seed(seed)
    encoder = nn.Sequential(
        nn.Linear(inputs.shape[1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 32)
    )
    head = nn.Linear(32, 1)
    mean, deviation = labels.mean(), labels.std()
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(inputs)).split(BATCH):
            embeddings = encoder(inputs[rows] + NOISE * torch.randn(len(rows), inputs.shape[1]))
            if ties is None:
                loss = F.l1_loss(head(embeddings).squeeze(1), (labels[rows] - mean) / deviation)
            else:
                loss = SF.rank_n_contrast(embeddings, labels[rows], ties=ties, temperature=TEMPERATURE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        if ties is None:
            found = head(encoder(test_inputs)).squeeze(1) * deviation + mean
        else:
            known, new = (F.normalize(encoder(one), dim=1).numpy() for one in (inputs, test_inputs))
            found = torch.as_tensor(KNeighborsRegressor(NEIGHBOURS).fit(known, labels.numpy()).predict(new))
    return float((found - test_labels).abs().mean())


def table(rows: list[dict[str, str]]) -> Iterator[str]:
    """Mean and deviation over seeds."""
    yield "| mean absolute error | " + " | ".join(DATA) + " |"
    yield "|---" * (1 + len(DATA)) + "|"
    for way in WAYS:
        cells = []
        for name in DATA:
            errors = [float(row["error"]) for row in rows if (row["data"], row["way"]) == (name, way)]
            digits = 1 if fmean(errors) > 10 else 3
            cells.append(f"{fmean(errors):.{digits}f} ± {stdev(errors):.{digits}f}")
        yield f"| {way} | {' | '.join(cells)} |"


def main() -> None:
    rows = []
    for name in DATA:
        for way, ties in WAYS.items():
            for seed in SEEDS:
                rows.append({"data": name, "way": way, "seed": str(seed), "error": f"{error(name, seed, ties):.4f}"})
                print(", ".join(rows[-1].values()), flush=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    text = f"{before}{START}\n\n" + "\n".join(table(rows)) + f"\n\n{END}{rest.partition(END)[2]}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
