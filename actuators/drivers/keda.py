"""KEDA external scaler over gRPC.

KEDA scales to zero on "inactive" and holds on an error, so whatever is not known is answered with
UNAVAILABLE, never with 0 or false. The metric specification needs no evidence and is always served:
KEDA asks for it first and gives up on the whole scaler when it fails.

The metric is the number of replicas wanted, the target 1 per replica, so KEDA's own arithmetic
(value / target, rounded up) gives exactly that number. An HPA leaves differences below its
tolerance (0.1) alone: above ten replicas set `behavior.scaleUp.tolerance: 0`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from actuators.drivers import externalscaler_pb2 as pb
from actuators.signals import SignalBoard
from base.clock import Clock
from base.errors import BadInput, ConfigError, Retryable
from base.tls import OFF, TlsSettings, add_grpc_port

METRIC = "tokenweir-replicas"
_SERVICE = "externalscaler.ExternalScaler"
_WORKERS = 16
_MAX_STREAMS = 8  # each holds a worker
_STREAM_STEP_S = 1.0


class KedaServer:
    """Serves the scaling signals. `start()` returns the bound address; port 0 picks a free one."""

    def __init__(
        self, signals: SignalBoard, clock: Clock, address: str, tls: TlsSettings = OFF
    ) -> None:
        self._signals = signals
        self._clock = clock
        self._address = address
        self._tls = tls
        self._streams = threading.BoundedSemaphore(_MAX_STREAMS)
        self._stopping = threading.Event()
        self._server: Any = None

    def start(self) -> str:
        """Bind and serve. Raises ConfigError when the address can't be bound."""
        server = grpc.server(
            ThreadPoolExecutor(_WORKERS, thread_name_prefix="keda"),
            options=[("grpc.so_reuseport", 0)],
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            port = add_grpc_port(server, self._address, self._tls)
        except RuntimeError as error:
            raise ConfigError(f"keda address {self._address!r} can't be bound: {error}") from error
        server.start()
        self._server = server
        host = self._address.rpartition(":")[0]
        return f"{host}:{port}"

    def stop(self, grace_s: float = 1.0) -> None:
        """Stop taking calls and end the streams."""
        self._stopping.set()
        if self._server is not None:
            self._server.stop(grace_s).wait(grace_s + 1)

    def _handlers(self) -> Any:
        def unary(call: Callable[[Any, Any], Any], request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                call,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )

        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "IsActive": unary(self._is_active, pb.ScaledObjectRef),
                "GetMetricSpec": unary(self._metric_spec, pb.ScaledObjectRef),
                "GetMetrics": unary(self._metrics, pb.GetMetricsRequest),
                "StreamIsActive": grpc.unary_stream_rpc_method_handler(
                    self._stream_is_active,
                    request_deserializer=pb.ScaledObjectRef.FromString,
                    response_serializer=lambda message: message.SerializeToString(),
                ),
            },
        )

    def _is_active(self, ref: pb.ScaledObjectRef, context: Any) -> pb.IsActiveResponse:
        return pb.IsActiveResponse(result=self._desired(ref, context) > 0)

    def _metric_spec(self, ref: pb.ScaledObjectRef, context: Any) -> pb.GetMetricSpecResponse:
        fleet = _fleet_of(ref, self._signals.fleets)
        if fleet not in self._signals.fleets:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no fleet is called {fleet!r}")
        spec = pb.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    def _metrics(self, request: pb.GetMetricsRequest, context: Any) -> pb.GetMetricsResponse:
        ref = request.scaledObjectRef
        desired = self._desired(ref, context)
        self._signals.asked(_fleet_of(ref, self._signals.fleets), self._clock.now())
        value = pb.MetricValue(
            metricName=request.metricName or METRIC,
            metricValue=desired,
            metricValueFloat=float(desired),
        )
        return pb.GetMetricsResponse(metricValues=[value])

    def _stream_is_active(
        self, ref: pb.ScaledObjectRef, context: Any
    ) -> Iterator[pb.IsActiveResponse]:
        """Send the state at once, then whenever it changes; silence means nothing new is known."""
        if not self._streams.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {_MAX_STREAMS} streams")
        try:
            told: bool | None = None
            while context.is_active() and not self._stopping.is_set():
                try:
                    _, desired = self._signals.read(
                        _fleet_of(ref, self._signals.fleets), self._clock.now()
                    )
                except BadInput as error:
                    context.abort(grpc.StatusCode.NOT_FOUND, str(error))
                except Retryable:
                    pass  # nothing honest to say: keep quiet, KEDA keeps what it was told
                else:
                    if told is not (desired > 0):
                        told = desired > 0
                        yield pb.IsActiveResponse(result=told)
                self._signals.wait(_STREAM_STEP_S)
        finally:
            self._streams.release()

    def _desired(self, ref: pb.ScaledObjectRef, context: Any) -> int:
        try:
            return self._signals.read(_fleet_of(ref, self._signals.fleets), self._clock.now())[1]
        except BadInput as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except Retryable as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        raise AssertionError("abort raises")


def _fleet_of(ref: pb.ScaledObjectRef, fleets: tuple[str, ...]) -> str:
    """Find the fleet: the trigger's `target`, the ScaledObject's own name, or the only one."""
    named = ref.scalerMetadata.get("target") or ref.scalerMetadata.get("fleet")
    if named:
        return named
    return ref.name if ref.name in fleets or len(fleets) != 1 else fleets[0]
