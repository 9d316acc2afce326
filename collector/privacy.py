"""What of telemetry is not kept, and what is blacked out: decided before it reaches the store.

What people and models said (`content` in the vocabulary) is not kept unless it is asked for.
Attributes of a rule are not kept at all; what matches a pattern is replaced wherever text stands:
attribute values of spans, resources and events, names, status messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from base.errors import ConfigError, Permanent, Retryable
from collector.redact_rule import RedactRule
from collector.vocabulary import Vocabulary
from store.literals import quoted

# Members of an event that is a message; the events of a message are all named gen_ai.…
_SAID = ("content", "message", "body", "tool_calls", "arguments", "parts")


class _Rows(Protocol):
    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Privacy:
    """Names and prefixes of attributes that are not kept, and (pattern, replacement) pairs."""

    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, *, keep_content: bool = False, rules: Sequence[RedactRule] = ()
    ) -> Privacy:
        listed = [] if keep_content else list(vocabulary.content)
        listed += [rule.attribute for rule in rules if rule.attribute is not None]
        return cls(
            names=tuple(dict.fromkeys(name for name in listed if not name.endswith("*"))),
            prefixes=tuple(
                dict.fromkeys(name.removesuffix("*") for name in listed if name.endswith("*"))
            ),
            patterns=tuple(
                (rule.pattern, rule.replace_by) for rule in rules if rule.pattern is not None
            ),
        )

    def withholds(self, name: str) -> bool:
        return name in self.names or name.startswith(self.prefixes)

    def check(self, engine: _Rows) -> None:
        """Raise ConfigError for a pattern or a replacement that the engine cannot read."""
        for pattern, replacement in self.patterns:
            said = {"pattern": pattern, "replacement": replacement}
            try:
                engine.rows(
                    "SELECT replaceRegexpAll('', {pattern:String}, {replacement:String})", said
                )
            except (Permanent, Retryable) as error:
                if "BAD_ARGUMENTS" not in str(error):
                    raise
                raise ConfigError(
                    f"collector.redact: pattern {pattern!r} is no regular expression of RE2, or "
                    f"replace_by {replacement!r} names a group that it has not"
                ) from error

    def redacted_sql(self, text: str) -> str:
        """Write a text with what matches a pattern replaced."""
        for pattern, replacement in self.patterns:
            text = f"replaceRegexpAll({text}, {quoted(pattern)}, {quoted(replacement)})"
        return text

    def has_prefix_sql(self, name: str) -> str:
        return " OR ".join(f"startsWith({name}, {quoted(prefix)})" for prefix in self.prefixes)

    def withheld_in_event_sql(self, event: str, name: str) -> str:
        """Write the condition that an attribute of an event is not kept."""
        listed = ", ".join(map(quoted, self.names))
        either = [f"{name} IN ({listed})"] if self.names else []
        either += [self.has_prefix_sql(name)] if self.prefixes else []
        if "gen_ai.event.content" in self.names:
            said = ", ".join(map(quoted, _SAID))
            either.append(f"(startsWith({event}, 'gen_ai.') AND {name} IN ({said}))")
        return " OR ".join(either)
