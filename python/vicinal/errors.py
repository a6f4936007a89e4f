"""The exceptions of vicinal.

Every one is a :class:`Error` and also the built-in exception that says the same in plain Python, so
``except ValueError`` catches a wrong argument and ``except MemoryError`` a budget that is too small.
``code`` is the name under which C++ and the command report the same failure.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all failures that vicinal reports on its own."""

    code: str = "Error"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = cls.__name__


class InvalidArgument(Error, ValueError):
    """A parameter is outside what the call accepts."""


class InvalidValue(Error, ValueError):
    """The data hold a value that no distance is defined for: NaN, infinity, a zero row in cosine."""


class RangeError(Error, ValueError):
    """The answer does not fit the type or the format that was asked for."""


class FormatError(Error, ValueError):
    """A file is not what its name or header says."""


class VersionError(Error, ValueError):
    """A file is from a newer major version."""


class Unsupported(Error, ValueError):
    """Understood, and not available in this build."""


class MemoryBudget(Error, MemoryError):
    """The smallest plan needs more than the budget; nothing was allocated."""


class OutOfMemory(Error, MemoryError):
    """The machine refused memory that the budget allowed."""


class CapacityExceeded(Error, MemoryError):
    """The result is larger than the caller's limit; the message has the exact need."""


class IoError(Error, OSError):
    """The system refused a file; ``errno`` says why."""


class DeviceError(Error, RuntimeError):
    """No usable device, or it failed."""


class Internal(Error, RuntimeError):
    """A defect of vicinal: please report it."""


class Cancelled(Error):
    """The progress callback said stop. (A signal raises what its handler raises: KeyboardInterrupt.)"""
