"""Copy what claims read of finished runs to a folder that is small enough for a repository.

python reproduce/lighten_runs.py reproduce/runs/cifar10-sincere-0 …     # to reproduce/light-runs/
python reproduce/lighten_runs.py reproduce/runs/cifar100-graf-* --without-embeddings     # for errors and closeness
"""

import argparse
from pathlib import Path

from sincere.claims.light_runs import lighten

OUT = Path(__file__).resolve().parent / "light-runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=OUT, help="where the light runs go")
    parser.add_argument(
        "--without-embeddings", action="store_true", help="keep errors, losses and nearness to a simplex"
    )
    given = parser.parse_args()
    for run in given.runs:
        light = lighten(run, given.out / run.name, embeddings=not given.without_embeddings)
        size = sum(file.stat().st_size for file in light.rglob("*") if file.is_file())
        print(f"{light}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
