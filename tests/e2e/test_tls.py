"""With a certificate every surface speaks TLS; with an authority senders must show one too."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from actuators.drivers import externalscaler_pb2 as keda
from base.tls import client_context
from tests.base.certificates import Certificates, made_certificates
from tests.e2e.conftest import Start
from tests.e2e.instance import command
from tests.e2e.otlp import SECOND, export, gateway_span

pytestmark = [pytest.mark.slow, pytest.mark.binary]

OTLP = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SCALER = "/externalscaler.ExternalScaler/GetMetricSpec"


def one_request(seed: int) -> bytes:
    rng, start = random.Random(seed), time.time_ns() - 5 * SECOND
    span = gateway_span(rng.randbytes(16), rng.randbytes(8), start, 250, tenant="acme")
    return bytes(export([span]).SerializeToString())


def test_every_surface_speaks_tls_and_senders_show_a_certificate(
    start: Start, tmp_path: Path
) -> None:
    made = made_certificates(tmp_path)
    config = tmp_path / "tokenweir.yaml"
    config.write_text(
        "tls: {certificate_file: server.pem, key_file: server-key.pem, "
        "client_ca_file: authority.pem}\n"
    )

    instance = start("--config", config)
    shown, unknown = (
        client_context(made.authority, made.client),
        client_context(made.authority, None),
    )
    assert shown is not None
    assert unknown is not None
    instance.http = httpx.Client(verify=unknown, trust_env=False)
    at = instance.endpoints
    assert [at[name].partition(":")[0] for name in ("http", "otlp_http")] == ["https", "https"]
    assert instance.get("/-/ready").status_code == 200

    body, headers = one_request(1), {"content-type": "application/x-protobuf"}
    with httpx.Client(verify=shown, trust_env=False) as http:
        assert http.post(f"{at['otlp_http']}/v1/traces", content=body, headers=headers).is_success
    with pytest.raises(httpx.TransportError):
        instance.http.post(f"{at['otlp_http']}/v1/traces", content=body, headers=headers)
    with pytest.raises(httpx.TransportError):
        httpx.get(at["http"].replace("https", "http") + "/-/ready", trust_env=False)

    assert _grpc_status(made, at["otlp_grpc"], OTLP, one_request(2), shows=True) is None
    assert _grpc_status(made, at["otlp_grpc"], OTLP, one_request(3), shows=False) == "UNAVAILABLE"
    asked = keda.ScaledObjectRef(name="x", namespace="y").SerializeToString()
    assert _grpc_status(made, at["keda"], SCALER, asked, shows=True) != "UNAVAILABLE"
    assert _grpc_status(made, at["keda"], SCALER, asked, shows=False) == "UNAVAILABLE"

    file = tmp_path / "one.binpb"
    file.write_bytes(one_request(4))
    given = ("--ca", made.authority, "--cert", made.client)
    replayed = command("replay", file, "--to", at["http"], *given)
    assert replayed.returncode == 0, replayed.stderr
    instance.http = httpx.Client(verify=shown, trust_env=False)
    instance.settle()
    assert len(instance.requests()) == 3


def _grpc_status(
    made: Certificates, address: str, method: str, request: bytes, *, shows: bool
) -> str | None:
    own: dict[str, Any] = {}
    if shows:
        own = {
            "private_key": made.client_key.read_bytes(),
            "certificate_chain": made.client.read_bytes(),
        }
    credentials = grpc.ssl_channel_credentials(made.authority.read_bytes(), **own)
    with grpc.secure_channel(address, credentials) as channel:
        call = channel.unary_unary(
            method, request_serializer=lambda raw: raw, response_deserializer=bytes
        )
        try:
            call(request, timeout=20)
        except grpc.RpcError as error:
            return str(error.code().name)  # type: ignore[attr-defined]
    return None
