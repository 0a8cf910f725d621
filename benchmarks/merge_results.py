"""Add the rows of a run on another machine to the file in the repository; rows that are there already stay as they are.

python benchmarks/merge_results.py FOLDER/gpu_speed.csv benchmarks/results/NVIDIA-H200/gpu_speed.csv
python benchmarks/readme_table.py
"""

import argparse
import sys
from pathlib import Path

import gpu_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    if not options.source.exists():
        sys.exit(f"SOURCE must be a file of results: there is no {options.source}")
    added = gpu_results.append(options.target, gpu_results.read(options.source))
    print(f"{added} rows added to {options.target}, which holds {len(gpu_results.read(options.target))}")


if __name__ == "__main__":
    main()
