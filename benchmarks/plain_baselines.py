"""What plain methods reach on the recipes' data: the figures that the recipes have to beat, on the same test samples.

    python benchmarks/plain_baselines.py letter=letter.npz banking77=banking77 trec6=trec:TREC

Arrays: the nearest neighbour by the raw features. Texts: TF-IDF of words and pairs of words, and a linear SVM
(scikit-learn, C = 1). Nothing is tuned. Rows go to benchmarks/results/plain_baselines.csv, where those of other recipes
stay as they are.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sincere.data import LabelledData
from sincere.recipes import find_recipe
from sincere.train.loop import opened

RESULTS = Path(__file__).resolve().parent / "results" / "plain_baselines.csv"


def nearest_neighbour(train: LabelledData, test: LabelledData) -> np.ndarray:
    return KNeighborsClassifier(1).fit(train.inputs.numpy(), train.labels.numpy()).predict(test.inputs.numpy())


def svm_on_words(train: LabelledData, test: LabelledData) -> np.ndarray:
    classifier = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC())
    return classifier.fit(list(train.shown), train.labels.numpy()).predict(list(test.shown))


METHODS = {
    "array": ("1-NN on the raw features", nearest_neighbour),
    "text": ("TF-IDF of words and pairs, linear SVM", svm_on_words),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", metavar="NAME=DATA")
    given = parser.parse_args()
    with RESULTS.open(newline="") as file:
        rows = {row["recipe"]: row for row in csv.DictReader(file)}
    for word in given.recipes:
        name, _, source = word.partition("=")
        # A recipe's own split; what it holds out to look at on its way, a plain method may learn from.
        splits = opened(replace(find_recipe(name).config.data, source=source, validation_share=0.0))
        title, method = METHODS[splits.train.kind]
        right = method(splits.train, splits.test) == splits.test.labels.numpy()
        rows[name] = {
            "recipe": name, "method": title, "top1": round(float(right.mean()), 5), "test_samples": len(right),
            "train_samples": len(splits.train), "scikit-learn": sklearn.__version__,
        }  # fmt: skip
        print(f"{name}: {title} {100 * right.mean():.2f} % of {len(right):,}", flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(rows.values()))))
        writer.writeheader()
        writer.writerows(rows.values())


if __name__ == "__main__":
    main()
