"""KEDA's calls, made by a gRPC client that knows only the service's descriptor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from world import START

from actuators.drivers import externalscaler_pb2
from actuators.drivers.keda import KedaServer
from actuators.signals import Signal, SignalBoard
from base.clock import ManualClock
from base.errors import ConfigError


class Client:
    """Builds every call from the descriptor: names, types and streaming as KEDA has them."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        pool = descriptor_pool.Default()
        pool.FindFileByName(externalscaler_pb2.DESCRIPTOR.name)
        self.service = pool.FindServiceByName("externalscaler.ExternalScaler")

    def __call__(self, method: str, **fields: Any) -> Any:
        found = self.service.FindMethodByName(method)
        request = message_factory.GetMessageClass(found.input_type)(**fields)
        answer = message_factory.GetMessageClass(found.output_type)
        stub = self.channel.unary_stream if found.server_streaming else self.channel.unary_unary
        call = stub(
            f"/{self.service.full_name}/{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=10)


@pytest.fixture
def board() -> SignalBoard:
    return SignalBoard({"chat": 1}, timedelta(seconds=30))


@pytest.fixture
def keda(board: SignalBoard, clock: ManualClock) -> Iterator[Client]:
    server = KedaServer(board, clock, "127.0.0.1:0")
    client = Client(server.start())
    yield client
    client.channel.close()
    server.stop(0)


def signal(desired: int | None, why: str = "") -> Signal:
    return Signal("chat", desired, desired, START, why)


REF = {"name": "chat", "namespace": "llm", "scalerMetadata": {"target": "chat"}}


def test_keda_computes_exactly_the_wanted_replicas(keda: Client, board: SignalBoard) -> None:
    board.publish(signal(7))
    (spec,) = keda("GetMetricSpec", **REF).metricSpecs
    (value,) = keda("GetMetrics", scaledObjectRef=REF, metricName=spec.metricName).metricValues

    assert value.metricName == spec.metricName
    assert math.ceil(value.metricValueFloat / spec.targetSizeFloat) == 7
    assert math.ceil(value.metricValue / spec.targetSize) == 7
    assert keda("IsActive", **REF).result is True


def test_zero_wanted_replicas_are_inactive(keda: Client, board: SignalBoard) -> None:
    board.publish(signal(0))

    assert keda("IsActive", **REF).result is False


@pytest.mark.parametrize("method", ["IsActive", "GetMetrics"])
def test_what_is_not_known_is_unavailable_and_never_zero(
    keda: Client, board: SignalBoard, method: str
) -> None:
    board.publish(signal(None, "telemetry of demo is silent"))
    fields = {"scaledObjectRef": REF} if method == "GetMetrics" else REF
    with pytest.raises(grpc.RpcError) as caught:
        keda(method, **fields)

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "silent" in caught.value.details()


def test_an_old_signal_is_unavailable(keda: Client, board: SignalBoard, clock: ManualClock) -> None:
    board.publish(signal(3))
    clock.advance(timedelta(minutes=2))
    with pytest.raises(grpc.RpcError) as caught:
        keda("IsActive", **REF)

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_specification_is_served_whatever_is_known(keda: Client) -> None:
    (spec,) = keda("GetMetricSpec", **REF).metricSpecs

    assert (spec.metricName, spec.targetSizeFloat) == ("tokenweir-replicas", 1.0)


def test_an_unknown_fleet_is_not_found(keda: Client, board: SignalBoard) -> None:
    board.publish(signal(3))
    other = {"name": "x", "scalerMetadata": {"target": "other"}}
    for call in (lambda: keda("IsActive", **other), lambda: keda("GetMetricSpec", **other)):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_stream_tells_the_state_and_its_changes_only(keda: Client, board: SignalBoard) -> None:
    board.publish(signal(2))
    stream = keda("StreamIsActive", **REF)
    first = next(stream).result
    board.publish(signal(3))
    board.publish(signal(None, "stale"))
    board.publish(signal(0))

    assert first is True
    assert next(stream).result is False
    stream.cancel()


def test_taking_the_number_is_noticed(keda: Client, board: SignalBoard, clock: ManualClock) -> None:
    board.publish(signal(2))
    assert board.last_asked("chat") is None
    keda("GetMetrics", scaledObjectRef=REF, metricName="tokenweir-replicas")

    assert board.last_asked("chat") == clock.now()


def test_an_address_in_use_is_an_error_that_names_it(
    board: SignalBoard, clock: ManualClock
) -> None:
    first = KedaServer(board, clock, "127.0.0.1:0")
    address = first.start()
    with pytest.raises(ConfigError, match=address):
        KedaServer(board, clock, address).start()
    first.stop(0)


def test_methods_and_numbers_are_those_of_the_contract() -> None:
    service = externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"]
    spec = externalscaler_pb2.MetricSpec.DESCRIPTOR.fields_by_name
    value = externalscaler_pb2.MetricValue.DESCRIPTOR.fields_by_name

    assert [m.name for m in service.methods] == [
        "IsActive",
        "StreamIsActive",
        "GetMetricSpec",
        "GetMetrics",
    ]
    assert {f.name: f.number for f in spec.values()} == {
        "metricName": 1,
        "targetSize": 2,
        "targetSizeFloat": 3,
    }
    assert value["metricValueFloat"].number == 3
