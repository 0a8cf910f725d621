"""Labelled data: files, arrays, text and sound read into memory, split, and dealt out in batches."""

from sincere.data.balanced_batches import BalancedBatches
from sincere.data.batches import Batches, ClassBatches, ShuffledBatches
from sincere.data.labelled import Form, LabelledData, Splits
from sincere.data.opening import open_data, read_data, split_arrays
from sincere.data.options import DataOptions
from sincere.data.split import SplitIndices, stratified_split
from sincere.data.text import hash_texts

__all__ = [
    "BalancedBatches",
    "Batches",
    "ClassBatches",
    "DataOptions",
    "Form",
    "LabelledData",
    "ShuffledBatches",
    "SplitIndices",
    "Splits",
    "hash_texts",
    "open_data",
    "read_data",
    "split_arrays",
    "stratified_split",
]
