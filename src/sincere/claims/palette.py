"""Colours of the claims' pictures: one a loss, told apart by everybody (Okabe and Ito)."""

COLOURS = {
    "sincere": "#0072B2",
    "supcon": "#D55E00",
    "cross_entropy": "#009E73",
    "infonce": "#56B4E9",
    "set_nce": "#CC79A7",
    "decoupled": "#E69F00",
    "fixed_simplex": "#000000",
}
TITLES = {
    "sincere": "SINCERE",
    "supcon": "SupCon",
    "cross_entropy": "cross-entropy",
    "infonce": "InfoNCE",
    "set_nce": "set loss",
    "decoupled": "decoupled",
    "fixed_simplex": "fixed simplex",
}
CLASS_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "0.45"


def colour_of(words: str) -> str:
    """Of the one loss that they name; else a neutral one.

    >>> colour_of("fsdd SupCon, top-1 %") == COLOURS["supcon"], colour_of("every pair a class, Jaccard %")
    (True, '0.3')
    """
    named = [loss for loss, title in TITLES.items() if title in words]
    return COLOURS[named[0]] if len(named) == 1 else "0.3"
