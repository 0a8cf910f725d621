"""What `sincere train` makes of a sentence-transformers model on few texts, beside the model as it was.

python benchmarks/sentence_start.py BANKING77 MODEL     # folder with train.csv and test.csv; name or folder of a model

30 texts of each of 20 classes (every fourth of banking77, the first 30 texts), judged by k-NN and a linear probe on all
test texts of these classes. "from nothing" is how a network is trained that knows nothing yet. Some minutes a row on
two cores; rows go to results/sentence_start.csv.
"""

import argparse
import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from sentence_transformers import SentenceTransformer

from sincere.embeddings import EmbeddingSet
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate

RESULTS = Path(__file__).parent / "results" / "sentence_start.csv"
PER_CLASS, EVERY = 30, 4
WAYS = {
    "its start": [],
    "from nothing, 3 epochs": ["--optimizer", "sgd", "--epochs", "3", "--set", "head.layers=mlp"],
}
ASKED = EvaluationOptions(methods=("knn", "linear"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("banking77", type=Path)
    parser.add_argument("model")
    given = parser.parse_args()
    rows = []
    with TemporaryDirectory() as place:
        files = {part: few_texts(given.banking77 / f"{part}.csv", part, Path(place)) for part in ("train", "test")}
        rows.append(row("as it was", untouched(given.model, files)))
        for way, options in WAYS.items():
            rows.append(row(way, trained(given.model, files, options, Path(place) / way)))
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def few_texts(path: Path, part: str, place: Path) -> Path:
    """The chosen classes of a part, and of those to train on the first texts alone."""
    with path.open(newline="", encoding="utf-8") as file:
        texts = list(csv.DictReader(file))
    chosen, taken, out = set(sorted({text["category"] for text in texts})[::EVERY]), Counter[str](), place / path.name
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "category"])
        writer.writeheader()
        for text in texts:
            taken[text["category"]] += 1
            if text["category"] in chosen and (part == "test" or taken[text["category"]] <= PER_CLASS):
                writer.writerow(text)
    return out


def untouched(model: str, files: dict[str, Path]) -> Evaluation:
    """The model's own embeddings."""
    encoder, sets = SentenceTransformer(model, device="cpu"), []
    for path in files.values():
        with path.open(newline="", encoding="utf-8") as file:
            texts = list(csv.DictReader(file))
        found = encoder.encode([text["text"] for text in texts], show_progress_bar=False)
        sets.append(EmbeddingSet.from_arrays(found, [text["category"] for text in texts]))
    return evaluate(*sets, options=ASKED)


def trained(model: str, files: dict[str, Path], options: list[str], run: Path) -> Evaluation:
    """By the command line, as a user would."""
    command = [sys.executable, "-m", "sincere", "train", str(files["train"]), "--test", str(files["test"])]
    command += ["--encoder", f"sentence-transformers:{model}", "--out", str(run), *options]
    subprocess.run(command, check=True)
    train, test = (EmbeddingSet.load(run / "embeddings" / f"{part}.npz") for part in ("train", "test"))
    return evaluate(train, test, options=ASKED)


def row(way: str, found: Evaluation) -> dict[str, str]:
    made = {"way": way}
    for method in ASKED.methods:
        top1 = found.classifier(method).top1
        made |= {method: f"{100 * top1.value:.2f}", f"{method} interval": f"{100 * top1.low:.1f}–{100 * top1.high:.1f}"}
    made["test texts"] = str(len(found.labels))
    print(made, flush=True)
    return made


if __name__ == "__main__":
    main()
