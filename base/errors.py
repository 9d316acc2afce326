"""Errors that cross a rim say what to do next.

TokenweirError
├── Permanent        the same input will always fail: fix the input
│   ├── ConfigError  a file or setting is wrong: the message names file, place and cure
│   └── BadInput     a caller's request is wrong: becomes 400
└── Retryable        try again, after `after` if it is given: becomes 503
"""

from __future__ import annotations

from datetime import timedelta


class TokenweirError(Exception):
    """Root of every error raised on purpose."""


class Permanent(TokenweirError):  # noqa: N818  named for what the caller must do
    """The same input will always fail."""


class ConfigError(Permanent):
    """A file or a setting is wrong. The message says which, where and what to do."""


class BadInput(Permanent):
    """A request cannot be understood. The message says what, which and why."""


class Retryable(TokenweirError):  # noqa: N818  named for what the caller may do
    """It may work later.

    `after` is how long the other side asked us to wait; None leaves it to the caller's backoff.
    """

    def __init__(self, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.after = after
