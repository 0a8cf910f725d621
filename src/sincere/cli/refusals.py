"""What goes wrong, in one line on stderr and an exit code; a traceback only for those who ask for it."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

import torch
import typer

from sincere.bench import AgreementError
from sincere.cli.hints import as_typed, flags_of, names_given
from sincere.cli.interrupts import INTERRUPTED, interruptible
from sincere.cli.notes import warnings_as_notes
from sincere.cli.output import DEBUG
from sincere.errors import InputError, OptionError
from sincere.runs import WriteError
from sincere.train import DivergedError
from sincere.train.peers import OtherProcessError

P = ParamSpec("P")
T = TypeVar("T")
NO_MEMORY = "DefaultCPUAllocator"  # by which torch's own error of a CPU is known
ASKED, FAILED = 2, 1  # exit codes: something was asked that cannot be; it went wrong


def in_words(verb: Callable[P, T]) -> Callable[P, T]:
    """The same verb, whose expected failures end the process with a sentence."""
    flags = flags_of(verb)

    @wraps(verb)
    def speaking(*args: P.args, **kwargs: P.kwargs) -> T:
        own = list(names_given(kwargs))
        try:
            with interruptible(), warnings_as_notes(flags, own):
                return verb(*args, **kwargs)
        except (InputError, OptionError) as error:
            _leave(as_typed(str(error), flags, own), ASKED)
        except (WriteError, DivergedError, AgreementError, OtherProcessError) as error:
            _leave(as_typed(getattr(error, "strerror", None) or str(error), flags, own), FAILED)
        except torch.OutOfMemoryError:
            advice = "a smaller --batch, --precision bf16 or --set compute.chunk_size=128 needs less"
            _leave(f"the GPU's memory is full: {advice}.", FAILED)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and NO_MEMORY not in str(error):
                raise
            advice = (
                "a smaller --batch, a smaller network or fewer samples need"
                if "batch" in flags
                else "fewer samples need"
            )
            _leave(f"this machine's memory is full: {advice} less.", FAILED)
        except BrokenPipeError:
            raise  # whoever read along has read enough; typer ends the process without a word
        except OSError as error:
            _leave(*_refused_by_the_system(error))
        except KeyboardInterrupt:
            _leave("interrupted.", INTERRUPTED)

    return speaking


def _refused_by_the_system(error: OSError) -> tuple[str, int]:
    """What the system did not let us do, and whether another place or other rights would help."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"could not read or write: {reason}.", FAILED
    if isinstance(error, (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)):
        return f"cannot use {error.filename}: {reason}. Name another place, or change what may be done there.", ASKED
    return f"could not read or write {error.filename}: {reason}.", FAILED


def _leave(words: str, code: int) -> NoReturn:
    """End the process with a line, or raise what is being handled where tracebacks are wanted."""
    if os.environ.get(DEBUG):
        raise
    rank = os.environ.get("RANK", "0")
    who = "" if rank == "0" else f"process {rank}: "
    print(f"{who}error: {' '.join(words.split())}", file=sys.stderr, flush=True)
    raise typer.Exit(code)
