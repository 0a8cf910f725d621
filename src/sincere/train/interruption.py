"""Ctrl-C and SIGTERM: finish the step, save, leave; a second one leaves at once."""

import signal
import sys
import threading
from time import monotonic
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Ctrl-C reaches every process of a terminal, and torchrun passes its own on as well: one wish, heard twice.
ECHO_SECONDS = 1.0


class Interruption:
    """Remembers, while it is entered, that somebody asked the run to stop.

    >>> with Interruption(quiet=True) as asked:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     asked.signal == signal.SIGTERM
    True
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.signal: int | None = None
        self.quiet, self.asked_at = quiet, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Python lets the main thread alone handle signals; in another the caller's own handling stays. So does a
        # handler (None) that a program around Python has set: nobody could put it back.
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) is not None]
            self._before = {number: signal.signal(number, self._ask) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if self.signal is not None:
            if now - self.asked_at < ECHO_SECONDS:
                return
            self.__exit__()
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.signal, self.asked_at = number, now
        if not self.quiet:
            name = signal.Signals(number).name
            print(f"\n{name}: finishing this step and saving; once more to leave at once.", file=sys.stderr, flush=True)
