"""The whole configuration: one frozen tree, made of each folder's section.

Precedence: command line, environment (`TOKENWEIR_STORE__URL`), tokenweir.yaml, default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from actuators.settings import ActuatorSettings
from alerts.settings import AlertSettings
from base.errors import ConfigError
from base.settings import Section
from base.tls import OFF, TlsSettings
from collector.settings import CollectorSettings
from cost.settings import CostSettings
from slo.settings import SloSettings
from store.settings import StoreSettings


class DatabaseSettings(Section):
    """Control state. `url` unset: SQLite in the data folder."""

    url: SecretStr | None = Field(None, description="postgresql+psycopg://… or sqlite:///…")
    url_file: Path | None = Field(None, description="a file that holds the url")


class Settings(BaseSettings):
    """tokenweir.yaml."""

    model_config = SettingsConfigDict(
        env_prefix="TOKENWEIR_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data: Path = Field(Path("data"), description="folder that holds everything")
    http: str = Field("127.0.0.1:8080", description="HOST:PORT of pages and API")
    otlp_http: str = Field("127.0.0.1:4318", description="HOST:PORT of OTLP/HTTP")
    otlp_grpc: str = Field("127.0.0.1:4317", description="HOST:PORT of OTLP/gRPC")
    keda: str = Field("127.0.0.1:6000", description="HOST:PORT of the KEDA external scaler")
    tls: TlsSettings = OFF
    slo_paths: tuple[Path, ...] = Field((), description="SLO documents, or folders of them")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    judging: bool = Field(
        True, description="judge, tell and act; off, telemetry is only taken in and shown"
    )
    bootstrap_key: SecretStr | None = Field(
        None, description="an admin key that exists from the first start on"
    )
    bootstrap_key_file: Path | None = None
    database: DatabaseSettings = DatabaseSettings()
    store: StoreSettings = StoreSettings()
    collector: CollectorSettings = CollectorSettings()
    slo: SloSettings = SloSettings()
    alerts: AlertSettings = AlertSettings()
    actuators: ActuatorSettings = ActuatorSettings()
    cost: CostSettings = CostSettings()

    @property
    def control_url(self) -> str:
        """Where control state is; may hold a password, so never log it."""
        if self.database.url is not None:
            return self.database.url.get_secret_value()
        if self.database.url_file is not None:
            return self.database.url_file.read_text().strip()
        return f"sqlite:///{self.data.absolute()}/control.db"

    @property
    def store_url(self) -> str:
        """Where telemetry is; may hold a password, so never log it."""
        if self.store.url is not None:
            return self.store.url.get_secret_value()
        if self.store.url_file is not None:
            return self.store.url_file.read_text().strip()
        return f"chdb://{self.data.absolute()}/store"

    def bootstrap(self) -> str | None:
        """Read the bootstrap key, if there is one."""
        if self.bootstrap_key is not None:
            return self.bootstrap_key.get_secret_value()
        if self.bootstrap_key_file is not None:
            return self.bootstrap_key_file.read_text().strip()
        return None


def load_settings(config: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Compose the tree. ConfigError names the file, the setting and what is wrong with it."""
    from_file = _read(config)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, from_file)

    try:
        return Loaded(**overrides)
    except ValidationError as error:
        where = str(config) if config else "settings"
        lines = [
            f"{where}: {'.'.join(str(part) for part in item['loc']) or 'top level'}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False)
        ]
        raise ConfigError("\n".join(lines)) from None  # the cause would show the values


def _read(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        found = yaml.safe_load(config.read_text())
    except OSError as error:
        raise ConfigError(
            f"{config}: {error.strerror}: give an existing file to --config"
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{config} is not YAML: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{config}: expected settings by name, found a {type(found).__name__}")
    placed: dict[str, Any] = _relative_to(config.parent, found)
    return placed


# Settings that are paths: in a file they are relative to that file.
_PATHS = frozenset({"data", "prices"})


def _relative_to(folder: Path, node: Any, name: str = "") -> Any:
    if isinstance(node, dict):
        return {key: _relative_to(folder, value, str(key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_relative_to(folder, item, name) for item in node]
    is_path = name in _PATHS or name == "slo_paths" or name.endswith("_file")
    if is_path and isinstance(node, str):
        return str(folder / node)
    return node
