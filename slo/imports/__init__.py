"""SLO documents of others -> native ones, with an account of what changed on the way."""

from slo.imports.files import import_files
from slo.imports.outcome import Imported, Imports, Note, PassedOver, Refused

__all__ = ["Imported", "Imports", "Note", "PassedOver", "Refused", "import_files"]
