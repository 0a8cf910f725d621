"""The names of classes on a map of points: which of them have room, and where they stand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sincere.report.picture import short_names

FEW = 20  # so many classes are all named, where there is room
MOST = 150  # of more names nobody would see the points
ISLAND = 3.0  # times as far as the nearest third of a class reaches
STEPS = (0, 1, -1, 2, -2, 3, -3)  # heights of a name by which it may leave the middle of its island
GAP = 2.0  # typographic points between an island and the name beside it
PAD = 0.15  # of the size of its letters, around a name
HIDDEN = 0.25  # of many classes: points of others that a name may cover, as a share of those of its island


def island_of(points: Any) -> Any:
    """Of the points of a class (n, d), those around the place where a third of them lies closest together.

    The name of the class belongs there: the mean of a class that lies in several places may lie in none of them.
    """
    apart = torch.cdist(*2 * (torch.from_numpy(points),)).numpy()
    third = -(-len(points) // 3)
    reach = np.partition(apart, third - 1, axis=1)[:, third - 1]  # the distance to the last of the nearest third
    heart = reach.argmin()
    return points[apart[heart] <= ISLAND * reach[heart]]


def islands_to_name(points: Any, labels: Any) -> dict[int, Any]:
    """The islands by their class, the largest first; of many classes those that stand by themselves."""
    found = {number: island_of(points[labels == number]) for number in np.unique(labels).tolist()}
    if len(found) > FEW:
        found = {number: one for number, one in found.items() if _has_its_place(one, points, labels == number)}
    return {number: found[number] for number in sorted(found, key=lambda number: -len(found[number]))[:MOST]}


def _has_its_place(island: Any, points: Any, own: Any) -> bool:
    """Are most points around the middle of an island of its class? A name among others would be taken for theirs."""
    middle = np.median(island, axis=0)
    reach = np.median(np.linalg.norm(island - middle, axis=1))
    return bool(own[np.linalg.norm(points - middle, axis=1) <= reach].mean() > 0.5)


def places_of_names(points: Any, labels: Any) -> dict[int, list[float]]:
    """Where names of classes stand on a flat map, (x, y): above their islands, whatever strays from these."""
    islands = islands_to_name(points, labels)
    return {n: [float(np.median(one[:, 0])), float(one[:, 1].max())] for n, one in islands.items()}


def write_names(axes: Any, points: Any, labels: Any, names: Sequence[str]) -> int:
    """Write names of classes on a map that is laid out, so that none covers another; how many had room."""
    islands, few = islands_to_name(points, labels), len(np.unique(labels)) <= FEW
    short = dict(zip(islands, short_names([names[number] for number in islands], 14), strict=True))
    pixels, taken = _in_pixels(axes, points), list[Any]()
    for number, island in islands.items():
        made = _written(axes, short[number], few=few)
        others = pixels[labels != number]
        most = np.inf if few else HIDDEN * len(island)
        box = _free_box(_half_size(made), _in_pixels(axes, island), others, taken, axes=axes, most=most)
        if box is None:
            made.remove()
            continue
        taken.append(box)
        # As a share of the axes, since a file may have more pixels than the canvas that was measured.
        made.set_position(axes.transAxes.inverted().transform((box[:2] + box[2:]) / 2))
    return len(taken)


def _written(axes: Any, name: str, *, few: bool) -> Any:
    white = {"boxstyle": f"round,pad={PAD}", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    made = axes.figure.text(
        *(0.5, 0.5, name),
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontweight="bold",
        fontsize=9.5 if few else 6.5,
        bbox=white,
        in_layout=False,
    )
    made.set_color("#000001")  # on its own white box, in light and dark
    return made


def _half_size(written: Any) -> Any:
    """Half the width and half the height of a name with its white box, in pixels."""
    extent, pad = written.get_window_extent(), PAD * written.get_fontsize() * written.figure.dpi / 72
    return np.array([extent.width, extent.height]) / 2 + pad


def _in_pixels(axes: Any, points: Any) -> Any:
    """Where points are drawn, (n, 2)."""
    if points.shape[1] == 3:
        seen = np.pad(points, ((0, 0), (0, 1)), constant_values=1.0) @ axes.get_proj().T
        points = seen[:, :2] / seen[:, 3:]
    return axes.transData.transform(points)


def _free_box(half: Any, island: Any, others: Any, taken: Sequence[Any], *, axes: Any, most: float) -> Any:
    """Of the places that a name may take at its island, the one that covers fewest points of other classes.

    A box is (left, bottom, right, top) in pixels. None where every place is outside the axes, on another name, or on
    more than `most` such points.
    """
    room = axes.bbox.extents
    for middles in _places(half, island, GAP * axes.figure.dpi / 72):
        best, least = None, np.inf
        for step, middle in enumerate(middles):
            box = np.concatenate([middle - half, middle + half])
            outside = (box[:2] < room[:2]).any() or (box[2:] > room[2:]).any()
            if outside or any((box[:2] < one[2:]).all() and (one[:2] < box[2:]).all() for one in taken):
                continue
            covered = ((others > box[:2]) & (others < box[2:])).all(axis=1).sum()
            if covered <= most and covered + step < least:  # nearer is better as well
                best, least = box, covered + step
        if best is not None:
            return best
    return None


def _places(half: Any, island: Any, gap: float) -> Any:
    """Where the middle of a name may be: within a large island, or else beside it, as with one that it would hide."""
    low, high, middle = island.min(axis=0), island.max(axis=0), np.median(island, axis=0)
    if (high - low > (2 * half[0], 6 * half[1])).all():
        yield [middle + np.array([0, 2 * step * half[1]]) for step in STEPS]
    above_and_below = [(middle[0], high[1] + half[1] + gap), (middle[0], low[1] - half[1] - gap)]
    yield np.array([*above_and_below, (high[0] + half[0] + gap, middle[1]), (low[0] - half[0] - gap, middle[1])])
