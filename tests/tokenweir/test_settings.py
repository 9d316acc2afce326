"""tokenweir.yaml: every setting can be given by itself, and what is wrong is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from base.durations import format_duration
from base.errors import ConfigError
from tokenweir.settings import Settings, load_settings

# Settings that go together with another one.
PAIRS: Mapping[str, dict[str, Any]] = {
    "tls.client_ca_file": {"certificate_file": "a", "key_file": "b"},
}


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def settings() -> Iterator[str]:
    for section, model in sections():
        for name, field in model.model_fields.items():
            if field.get_default(call_default_factory=True) is not PydanticUndefined:
                yield f"{section}.{name}"


def written(value: Any) -> Any:
    """Write a setting's value as people do."""
    match value:
        case timedelta():
            return format_duration(value)
        case dict():
            return {key: written(each) for key, each in value.items()}
        case list() | tuple() | frozenset() | set():
            return [written(each) for each in value]
        case Path():
            return str(value)
    return value


@pytest.mark.parametrize("setting", list(settings()))
def test_any_setting_can_be_the_only_one_of_its_section(setting: str, tmp_path: Path) -> None:
    section, name = setting.split(".")
    default = written(Settings().model_dump()[section][name])
    config = tmp_path / "tokenweir.yaml"
    config.write_text(yaml.safe_dump({section: {**PAIRS.get(setting, {}), name: default}}))

    loaded = load_settings(config, {})

    assert written(loaded.model_dump()[section][name]) == default


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("collector: {otlp_http: '127.0.0.1:1'}", "collector.otlp_http: Extra inputs"),
        ("collector: {redact: [{}]}", "collector.redact.0: Value error, give attribute or pattern"),
        ("tls: {key_file: a}", "tls: Value error, certificate_file and key_file go together"),
        ("nothing: 1", "nothing: Extra inputs"),
        ("[1]", "expected settings by name, found a list"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str, tmp_path: Path) -> None:
    config = tmp_path / "tokenweir.yaml"
    config.write_text(text)

    with pytest.raises(ConfigError, match=says.replace("[", r"\[")):
        load_settings(config, {})


def test_files_of_a_section_are_relative_to_the_file(tmp_path: Path) -> None:
    config = tmp_path / "tokenweir.yaml"
    config.write_text("tls: {certificate_file: a.pem, key_file: b.pem}")

    assert load_settings(config, {}).tls.certificate_file == tmp_path / "a.pem"
