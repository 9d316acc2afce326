"""An authority of our own, with a server's and a client's certificate, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Certificates:
    authority: Path
    server: Path
    server_key: Path
    client: Path  # with its key
    client_key: Path
    locked_key: Path  # the server's, under a passphrase


def made_certificates(folder: Path) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    for name in ("authority", "server", "client"):
        _openssl(folder, f"ecparam -name prime256v1 -genkey -noout -out {name}-key.pem")
    _openssl(
        folder,
        "req -x509 -new -key authority-key.pem -subj /CN=authority -days 2 -out authority.pem",
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name in ("server", "client"):
        _openssl(folder, f"req -new -key {name}-key.pem -subj /CN={name} -out {name}.csr")
        _openssl(
            folder,
            f"x509 -req -in {name}.csr -CA authority.pem -CAkey authority-key.pem "
            f"-CAcreateserial -days 2 -extfile names -out {name}.pem",
        )
    _openssl(folder, "ec -in server-key.pem -aes256 -passout pass:secret -out locked-key.pem")
    with (folder / "client.pem").open("a") as file:
        file.write((folder / "client-key.pem").read_text())
    return Certificates(
        folder / "authority.pem",
        folder / "server.pem",
        folder / "server-key.pem",
        folder / "client.pem",
        folder / "client-key.pem",
        folder / "locked-key.pem",
    )


def _openssl(folder: Path, line: str) -> None:
    subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
