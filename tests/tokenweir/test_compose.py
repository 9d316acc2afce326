"""docker-compose.yml and the files it mounts, against the programs they are for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
import yaml

from base.listen import parse_listen
from slo.documents import load
from stack.up import parser as stack_parser
from tokenweir.cli import app
from tokenweir.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "compose"
KEY = "twk_0123456789abcdef0123456789abcdef"

# What programs that are not ours listen on by default.
DEFAULT_PORTS = {
    "postgres": {5432},
    "clickhouse": {8123, 9000},
    "prometheus": {9090},
    "alertmanager": {9093},
}
ADDRESS = re.compile(r"^(?:[a-z+]+://(?:[^@/]+@)?)?([a-z][a-z0-9-]*):(\d+)(?:/.*)?$")

Services = dict[str, dict[str, Any]]


def read(*files: str) -> dict[str, Any]:
    """Lay compose files over each other: of a service, later keys replace earlier ones."""
    merged: dict[str, Any] = {}
    for file in files:
        for section, entries in yaml.safe_load((ROOT / file).read_text()).items():
            if section == "name" or section.startswith("x-"):
                continue
            for name, entry in entries.items():
                old = merged.setdefault(section, {}).get(name) or {}
                merged[section][name] = {**old, **(entry or {})}
    return merged


LAYOUTS = [("docker-compose.yml",), ("docker-compose.yml", "examples/compose/vllm.yaml")]


@pytest.fixture(params=LAYOUTS, ids=["simulated", "vllm"])
def compose(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read(*request.param)


def tokenweir_options(service: dict[str, Any]) -> dict[str, Any]:
    """Parse the command as `tokenweir` would, running nothing."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    name, *arguments = service["command"]
    with group.make_context("tokenweir", [name, *arguments]) as context:
        _, command, rest = group.resolve_command(context, [name, *arguments])
        assert command is not None
        return command.make_context(name, rest, parent=context).params


def listened_on(services: Services) -> dict[str, set[int]]:
    """Say for each service on which ports other services can reach it."""
    tokenweir = tokenweir_options(services["tokenweir"])
    stack = stack_parser().parse_args(services["stack"]["command"])
    found = {
        **DEFAULT_PORTS,
        "tokenweir": _open(tokenweir[name] for name in ("http", "otlp_http", "otlp_grpc", "keda")),
        "stack": _open(getattr(stack, name) for name in ("listen", "router", "fleet", "pager")),
        "otelcol": _open(
            protocol["endpoint"]
            for protocol in example("otelcol.yaml")["receivers"]["otlp"]["protocols"].values()
        ),
    }
    if "vllm" in services:
        (port,) = (w for w in services["vllm"]["command"] if w.startswith("--port="))
        found["vllm"] = {int(port.partition("=")[2])}
    return found


def _open(addresses: Any) -> set[int]:
    listens = [parse_listen(address, "an option") for address in addresses]
    return {listen.port for listen in listens if not listen.is_loopback}


def example(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text())


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Say what is mounted where: {target: source}."""
    return {target: source for source, target, *_ in (v.split(":") for v in _volumes(service))}


def _volumes(service: dict[str, Any]) -> list[str]:
    return service.get("volumes", [])


def texts(node: Any) -> Iterator[str]:
    """Yield every string of a document, of `--option=value` the value."""
    if isinstance(node, dict):
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)
    elif isinstance(node, str):
        yield node.partition("=")[2] if node.startswith("--") else node


def test_tokenweirs_command_is_one_that_it_accepts(compose: dict[str, Any]) -> None:
    options = tokenweir_options(compose["services"]["tokenweir"])

    assert options["data"] == Path("/var/lib/tokenweir")
    assert options["config"] == Path("/etc/tokenweir/tokenweir.yaml")
    assert options["slo"] == [Path("/etc/tokenweir/slo")]


def test_the_stacks_command_is_one_that_it_accepts(compose: dict[str, Any]) -> None:
    service = compose["services"]["stack"]

    assert service["entrypoint"] == ["python", "-m", "stack.up"]
    assert stack_parser().parse_args(service["command"]).data == Path("/var/lib/tokenweir")


def test_ports_published_are_listened_on_and_only_on_this_machine(compose: dict[str, Any]) -> None:
    ports = listened_on(compose["services"])

    for name, service in compose["services"].items():
        for published in service.get("ports", ()):
            host, _, inside = published.split(":")
            assert host == "127.0.0.1", f"{name}: {published}"
            assert int(inside) in ports[name], f"{name}: {published}"


def test_what_is_mounted_exists(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for target, source in mounts(service).items():
            if source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {source} for {target}"
            else:
                assert source in compose["volumes"], f"{name}: volume {source} for {target}"


def test_every_secret_that_is_read_is_given(compose: dict[str, Any]) -> None:
    documents = {name: [service] for name, service in compose["services"].items()}
    documents["prometheus"].append(example("prometheus.yml"))

    for name, nodes in documents.items():
        read_ones = {t.rsplit("/", 1)[1] for t in texts(nodes) if t.startswith("/run/secrets/")}
        given = set(compose["services"][name].get("secrets", ()))
        assert read_ones == given, name
        assert given <= set(compose["secrets"]), name


def test_every_address_is_a_service_that_listens_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    ports = listened_on(services)
    nodes: list[Any] = [[s.get("command"), s.get("environment")] for s in services.values()]
    nodes += [example(path.name) for path in EXAMPLES.iterdir() if path.name != "vllm.yaml"]

    found = [(m[1], int(m[2])) for text in texts(nodes) if (m := ADDRESS.match(text))]

    assert {name for name, _ in found} >= {
        *("tokenweir", "otelcol", "stack", "alertmanager", "postgres", "clickhouse")
    }
    assert [(name, port) for name, port in found if port not in ports.get(name, ())] == []


def test_what_a_service_waits_for_is_a_service(compose: dict[str, Any]) -> None:
    services = compose["services"]

    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings tokenweir would have in its container, its mounts laid out in `tmp_path`."""
    service = read("docker-compose.yml")["services"]["tokenweir"]
    for target, source in mounts(service).items():
        if source.startswith("./"):
            place = tmp_path / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to((ROOT / source).resolve())
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, KEY if value.startswith("${") else value)
    options = tokenweir_options(service)
    return load_settings(
        tmp_path / str(options["config"]).lstrip("/"),
        {"slo_paths": [tmp_path / str(path).lstrip("/") for path in options["slo"]]},
    )


def test_tokenweirs_settings_are_whole(settings: Settings) -> None:
    assert settings.bootstrap() == KEY
    assert settings.control_url.startswith("postgresql+psycopg://")
    assert settings.cost.price_book().name == "demo"
    assert load(settings.slo_paths)
    assert [receiver.name for receiver in settings.alerts.receivers] == ["alertmanager"]


def test_the_fleet_and_the_gateway_that_are_steered_are_the_stacks(settings: Settings) -> None:
    stack = stack_parser().parse_args(read("docker-compose.yml")["services"]["stack"]["command"])
    (gateway,), (fleet,) = settings.actuators.gateways, settings.actuators.fleets

    assert gateway.name == stack.name
    assert fleet.url == f"http://stack:{stack.fleet.rpartition(':')[2]}"
    assert (fleet.min, fleet.max) == (stack.engines, stack.max)


def test_the_collectors_pipelines_are_made_of_what_is_defined() -> None:
    collector = example("otelcol.yaml")
    service = collector["service"]

    assert set(service["extensions"]) <= set(collector["extensions"])
    for pipeline in service["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline.get(kind, ())) <= set(collector.get(kind, ()))
    for exporter in collector["exporters"].values():
        assert exporter["sending_queue"]["storage"] in service["extensions"]


@pytest.mark.binary
@pytest.mark.parametrize(
    ("program", "arguments", "file"),
    [
        ("promtool", ["check", "config", "--syntax-only"], "prometheus.yml"),
        ("amtool", ["check-config"], "alertmanager.yml"),
    ],
)
def test_the_program_itself_finds_nothing_wrong(
    program: str, arguments: list[str], file: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")

    checked = subprocess.run(
        [program, *arguments, str(EXAMPLES / file)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "GOMAXPROCS": "1"},
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
