"""Keys are read from files, so that they stand in no command line and in no settings."""

from __future__ import annotations

from pathlib import Path

from base.errors import ConfigError


def bearer(key_file: Path | None) -> dict[str, str]:
    """Make the header that presents the key in a file; no file, no header. Raises ConfigError."""
    if key_file is None:
        return {}
    try:
        key = key_file.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"key file {key_file}: {error.strerror}") from error
    if not key:
        raise ConfigError(f"key file {key_file} is empty: write the key into it")
    return {"authorization": f"Bearer {key}"}
