"""TLS of what listens: one certificate for all surfaces, and whose clients may send."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from base.errors import ConfigError
from base.settings import Section


class TlsSettings(Section):
    """Certificate and key in PEM, read at the start; without them nothing speaks TLS."""

    certificate_file: Path | None = Field(
        None, description="the certificate, followed by those between it and the authority"
    )
    key_file: Path | None = Field(None, description="its private key, without a passphrase")
    client_ca_file: Path | None = Field(
        None,
        description="authorities of senders and of KEDA: they must show a certificate (mutual TLS)",
    )

    @model_validator(mode="after")
    def _together(self) -> TlsSettings:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file go together")
        if self.client_ca_file is not None and self.certificate_file is None:
            raise ValueError("client_ca_file needs certificate_file and key_file")
        return self

    @property
    def is_on(self) -> bool:
        return self.certificate_file is not None

    @property
    def scheme(self) -> str:
        return "https" if self.is_on else "http"


OFF = TlsSettings()


def check(tls: TlsSettings) -> str:
    """Read the files and say what is on. Raises ConfigError naming the file that is wrong."""
    if tls.certificate_file is None or tls.key_file is None:
        return "off"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for file in (tls.certificate_file, tls.key_file, tls.client_ca_file):
        if file is not None:
            _readable(file)
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file, password=_no_passphrase)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"tls: {tls.key_file} is not the unencrypted key of {tls.certificate_file}, "
            f"or one of them is not PEM ({_reason(error)})"
        ) from error
    if tls.client_ca_file is None:
        return "on"
    try:
        context.load_verify_locations(tls.client_ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"tls: {tls.client_ca_file} holds no certificate in PEM") from error
    return "on, senders show a certificate"


def uvicorn_options(tls: TlsSettings, *, ask_clients: bool) -> dict[str, Any]:
    """Return what uvicorn.Config takes; `ask_clients`: only clients with a certificate enter."""
    if not tls.is_on:
        return {}
    found: dict[str, Any] = {"ssl_certfile": tls.certificate_file, "ssl_keyfile": tls.key_file}
    if ask_clients and tls.client_ca_file is not None:
        found |= {"ssl_ca_certs": str(tls.client_ca_file), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return found


def add_grpc_port(server: Any, address: str, tls: TlsSettings) -> int:
    """Bind a gRPC server, with TLS where it is on; returns the port. RuntimeError if it cannot."""
    if tls.certificate_file is None or tls.key_file is None:
        return int(server.add_insecure_port(address))
    import grpc

    authorities = None if tls.client_ca_file is None else tls.client_ca_file.read_bytes()
    credentials = grpc.ssl_server_credentials(
        [(tls.key_file.read_bytes(), tls.certificate_file.read_bytes())],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )
    return int(server.add_secure_port(address, credentials))


def client_context(ca: Path | None, cert: Path | None) -> ssl.SSLContext | None:
    """Make what a client believes and shows; None: public authorities, and no certificate.

    Raises ConfigError naming the file that is wrong.
    """
    if ca is None and cert is None:
        return None
    context = ssl.create_default_context()
    for file in (ca, cert):
        if file is not None:
            _readable(file)
    try:
        if ca is not None:
            context.load_verify_locations(ca)
        if cert is not None:
            context.load_cert_chain(cert, password=_no_passphrase)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{ca or ''} {cert or ''} cannot be used: give PEM files, the second one with a "
            f"certificate and its unencrypted key ({_reason(error)})".strip()
        ) from error
    return context


def _readable(file: Path) -> None:
    try:
        file.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls: {file} cannot be read: {error.strerror}") from error


def _no_passphrase() -> str:
    raise ValueError("it has a passphrase")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
