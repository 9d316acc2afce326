"""Certificates: what is wrong with them is said at the start, by file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from base.errors import ConfigError
from base.tls import TlsSettings, check, client_context
from tests.base.certificates import Certificates, made_certificates

pytestmark = pytest.mark.binary


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return made_certificates(tmp_path_factory.mktemp("tls"))


def test_without_files_there_is_none() -> None:
    assert check(TlsSettings()) == "off"


def test_certificate_and_key_are_read(made: Certificates) -> None:
    tls = TlsSettings(certificate_file=made.server, key_file=made.server_key)
    mutual = tls.model_copy(update={"client_ca_file": made.authority})

    assert check(tls) == "on"
    assert check(mutual) == "on, senders show a certificate"


def test_what_is_wrong_names_the_file(made: Certificates, tmp_path: Path) -> None:
    missing, text = tmp_path / "no.pem", tmp_path / "text.pem"
    text.write_text("not a certificate")

    with pytest.raises(ConfigError, match=r"no\.pem cannot be read: No such file"):
        check(TlsSettings(certificate_file=missing, key_file=made.server_key))
    with pytest.raises(ConfigError, match=r"client-key\.pem is not the unencrypted key of"):
        check(TlsSettings(certificate_file=made.server, key_file=made.client_key))
    with pytest.raises(ConfigError, match="it has a passphrase"):
        check(TlsSettings(certificate_file=made.server, key_file=made.locked_key))
    with pytest.raises(ConfigError, match=r"text\.pem holds no certificate"):
        check(
            TlsSettings(certificate_file=made.server, key_file=made.server_key, client_ca_file=text)
        )
    with pytest.raises(ConfigError, match="cannot be used"):
        client_context(text, None)


@pytest.mark.parametrize(
    "given", [{"certificate_file": "a"}, {"key_file": "a"}, {"client_ca_file": "a"}]
)
def test_half_of_it_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="go together|needs certificate_file"):
        TlsSettings.model_validate(given)
