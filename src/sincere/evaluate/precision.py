"""Full float32 in products, by its address in evaluation; see `sincere.nearest`."""

from sincere.nearest.precision import full_precision

__all__ = ["full_precision"]
