"""Numbers in sentences."""


def amount(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> amount(1, "class", "classes"), amount(1200, "class", "classes"), amount(2, "sample")
    ('1 class', '1,200 classes', '2 samples')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def left_out(alone: int, one: str) -> str:
    """A note on samples that retrieval has nothing to find for."""
    if alone == 1:
        return f"1 {one} is the only one of its class: retrieval leaves it out as a query"
    return f"{amount(alone, one)} are the only ones of their class: retrieval leaves them out as queries"
