"""The report's colours, seen with every kind of colour vision, on white and on black."""

import numpy as np
import pytest

from sincere.report.palette import COLOURS, SYMBOLS, class_symbol, colour_of

# What linear RGB looks like to people without one kind of cone: Machado, Oliveira and Fernandes 2009, severity 1.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # sRGB, D65


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE 1976 L*a*b* of linear RGB: distances of 2 or 3 are just seen side by side."""
    x, y, z = (TO_XYZ @ rgb) / np.array([0.9505, 1.0, 1.089])
    fx, fy, fz = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_colours_differ_for_everybody(vision):
    seen = np.stack([lab(np.clip(VISIONS[vision] @ linear(colour), 0, 1)) for colour in COLOURS])
    distances = np.linalg.norm(seen[:, None] - seen[None], axis=2)
    distances[np.diag_indices(len(seen))] = np.inf
    assert distances.min() > 15


@pytest.mark.parametrize(("paper", "least"), [("#ffffff", 2.0), ("#14171b", 2.0)])
def test_every_colour_stands_out_from_the_paper(paper, least):
    """The ratio of luminances of WCAG; names and symbols say the same as colours, so less than for text will do."""
    luminance = {colour: 0.05 + TO_XYZ[1] @ linear(colour) for colour in (*COLOURS, paper)}
    for colour in COLOURS:
        pair = luminance[colour], luminance[paper]
        assert max(pair) / min(pair) > least, colour


def test_sixty_classes_have_looks_of_their_own():
    looks = [(colour_of(number), class_symbol(number)) for number in range(60)]
    assert len(set(looks)) == 60 == len(COLOURS) * len(SYMBOLS)
    assert len({colour for colour, _ in looks[:10]}) == 10
