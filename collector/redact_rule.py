"""A rule of `collector.redact` in tokenweir.yaml."""

from __future__ import annotations

from pydantic import Field, model_validator

from base.settings import Section

REDACTED = "[redacted]"


class RedactRule(Section):
    """Not to be kept: an attribute by name, or whatever matches a pattern."""

    attribute: str | None = Field(None, description="a name, or a prefix that ends in *")
    pattern: str | None = Field(None, description="regular expression (RE2)")
    replace_by: str = Field(REDACTED, description="what stands where it matched; \\1: its group")

    @model_validator(mode="after")
    def _one_of_both(self) -> RedactRule:
        if (self.attribute is None) == (self.pattern is None):
            raise ValueError("give attribute or pattern, one of them")
        if self.attribute is not None and "*" in self.attribute.removesuffix("*"):
            raise ValueError("attribute: a * stands at the end only")
        return self
