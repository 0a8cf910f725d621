"""Where 400 free points of four classes end on the sphere, and where six classes end.

python docs/figures/theory_sphere.py        # writes docs/figures/theory_sphere.png, ten seconds on one core
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from mpl_toolkits.mplot3d.axes3d import Axes3D

from sincere import theory
from sincere.theory.minimise import random_points

# Okabe and Ito's palette, which colour-blind readers can tell apart; a marker for each class besides.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")


def draw(axes: Axes3D, points: np.ndarray, labels: np.ndarray, title: str, *, edges: float | None, size: float) -> None:
    axes.computed_zorder = False  # points in front of the sphere's lines
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    axes.plot_wireframe(np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="0.88", lw=0.5, zorder=1)
    means = np.stack([points[labels == c].mean(axis=0) for c in np.unique(labels)])
    if edges is not None:
        cosines = means @ means.T
        for a, b in zip(*np.triu_indices(len(means), 1), strict=True):
            if cosines[a, b] > edges:
                axes.plot(*np.stack([means[a], means[b]]).T, color="0.25", lw=1.2, zorder=3)
    for c in np.unique(labels):
        axes.scatter(
            *points[labels == c].T, color=COLOURS[c], marker=MARKERS[c], s=size, depthshade=False, lw=0, zorder=5
        )
    axes.set_title(title, fontsize=12, y=0.98)
    axes.set_box_aspect((1, 1, 1), zoom=1.35)
    axes.view_init(16, 75)
    axes.set_axis_off()


def upright(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Turned so that the first class is on top: all panels are seen alike."""
    top = points[labels == 0].mean(axis=0)
    other = points[labels == 1].mean(axis=0)
    frame = np.linalg.qr(np.stack([top, other], axis=1), mode="complete")[0]
    frame *= np.sign([frame[:, 0] @ top, frame[:, 1] @ other, np.linalg.det(frame) or 1])
    return (points @ frame)[:, [1, 2, 0]]


def main() -> None:
    torch.set_num_threads(1)
    figure = plt.figure(figsize=(12.5, 3.9), layout="constrained")
    panels = [figure.add_subplot(1, 4, place, projection="3d") for place in range(1, 5)]
    labels = np.repeat(np.arange(4), 100)
    draw(panels[0], random_points(400, 3, 0).numpy(), labels, "the start: 400 points,\n4 classes", edges=None, size=11)
    for axes, loss, name in ((panels[1], "sincere", "SINCERE"), (panels[2], "cross_entropy", "cross-entropy + λ‖W‖²")):
        found = theory.sphere_optimum(loss)
        print(found)
        points = upright(found.positions.numpy(), labels)
        title = f"{name}: a tetrahedron,\noff by {found.simplex_deviation:.0e}"
        draw(axes, points, labels, title, edges=-0.5, size=60)
    six = theory.sphere_optimum("sincere", classes=6, points=60)
    print(six)
    labels = six.labels.numpy()
    draw(
        panels[3],
        upright(six.positions.numpy(), labels),
        labels,
        "SINCERE, 6 classes:\nan octahedron",
        edges=-0.5,
        size=60,
    )
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
