"""What `sincere` raises when a caller's input cannot be used.

Both are `ValueError`s, so code that already guards a loss with `except ValueError` keeps working.
"""


class InputError(ValueError):
    """A tensor has the wrong shape, type, device or content."""


class OptionError(ValueError):
    """An option is unknown, out of range, or cannot be combined with another."""
