"""The papers' claims: each a function that runs it and comes back with figures, intervals and a verdict."""

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.record import ClaimResult, Measured
from sincere.claims.registry import CLAIMS, find_claim
from sincere.claims.reproduce import reproduce
from sincere.claims.results import kept_results, listing, markdown_table

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimResult",
    "Conditions",
    "Measured",
    "Outcome",
    "find_claim",
    "kept_results",
    "listing",
    "markdown_table",
    "reproduce",
]
