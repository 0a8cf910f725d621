"""Colours of the claims' pictures: one a loss, told apart by everybody (Okabe and Ito)."""

COLOURS = {
    "sincere": "#0072B2",
    "supcon": "#D55E00",
    "cross_entropy": "#009E73",
    "infonce": "#56B4E9",
    "set_nce": "#CC79A7",
    "decoupled": "#E69F00",
}
TITLES = {
    "sincere": "SINCERE",
    "supcon": "SupCon",
    "cross_entropy": "cross-entropy",
    "infonce": "InfoNCE",
    "set_nce": "set loss",
    "decoupled": "decoupled",
}
CLASS_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "0.45"
