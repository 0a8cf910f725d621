"""Sentences that several records share."""

from sincere.tables import amount


def left_out(alone: int, one: str) -> str:
    """A note on samples that retrieval has nothing to find for."""
    if alone == 1:
        return f"1 {one} is the only one of its class: retrieval leaves it out as a query"
    return f"{amount(alone, one)} are the only ones of their class: retrieval leaves them out as queries"
