"""The pages say what the code does: settings, options, endpoints, links, examples."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import typer
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import actuators.api
import alerts.api
import alerts.api_v2
import collector.api
import cost.api
import dashboards.api
import slo.api
import stack.up
from alerts.settings import ReceiverSettings
from alerts.signing import decode_secret, signature_headers
from base.durations import format_duration
from collector.vocabulary import load as load_vocabulary
from cost.pricefile import parse_price_book
from slo.documents import read
from tokenweir.cli import app
from tokenweir.http import Readiness, create_api
from tokenweir.settings import Settings, load_settings

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
MODULE = re.compile(r"python -m (stack\.[a-z]+)")
HIDDEN = {"ingest", "server"}  # started by `up`, not by people


def test_every_setting_is_described_with_its_default(pages: Any) -> None:
    page = pages.text("configuration.md")

    missing = [
        f"| `{name}` | `{default}` |"
        for name, default in _settings(Settings)
        if f"| `{name}` | `{default}` |" not in page
    ]

    assert not missing


def test_every_setting_described_exists(pages: Any) -> None:
    page = pages.text("configuration.md")
    known = {name for name, _ in _settings(Settings)}

    assert set(re.findall(r"^\| `([a-z_.\[\]0-9]+)` \|", page, re.MULTILINE)) <= known


def test_every_command_and_option_is_described(pages: Any) -> None:
    page = pages.text("cli.md")

    missing = [
        f"{path} {spelling}"
        for path, command in _commands(typer.main.get_command(app), "tokenweir")
        for parameter in command.params
        for spelling in _spellings(parameter)
        if f"`{spelling}`" not in _section(page, f"## {path}\n")
    ]

    assert not missing


def test_every_option_of_the_reference_stack_is_described(pages: Any) -> None:
    page = pages.text("stack.md")
    options = [o for action in stack.up.parser()._actions for o in action.option_strings]

    assert [o for o in options if o not in {"-h", "--help"} and f"`{o}`" not in page] == []


def test_every_path_of_the_api_is_described(pages: Any) -> None:
    page = pages.text("api.md")
    paths = _openapi()["paths"]

    assert len(paths) > 20
    assert [path for path in paths if path not in page] == []


def test_every_query_parameter_of_the_api_is_described(pages: Any) -> None:
    page = pages.text("api.md") + pages.text("actions.md")

    missing = [
        f"{path} {parameter['name']}"
        for path, methods in _openapi()["paths"].items()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
        and not re.search(rf"`{parameter['name']}`|[?&]{parameter['name']}=", page)
    ]

    assert not missing


def test_every_kind_of_receiver_has_a_heading_and_every_field_is_mentioned(pages: Any) -> None:
    page = pages.text("alerts.md")
    kinds = get_args(ReceiverSettings.model_fields["type"].annotation)

    assert [kind for kind in kinds if f"### {kind}\n" not in page] == []
    assert [name for name in ReceiverSettings.model_fields if name not in page] == []


def test_every_column_and_layer_of_the_vocabulary_is_described(pages: Any) -> None:
    page = pages.text("telemetry.md")
    vocabulary = load_vocabulary()

    columns = [column.name for column in vocabulary.columns]
    layers = {rule.layer for rule in vocabulary.rules}

    assert [name for name in columns if not re.search(rf"^\| `{name}`", page, re.MULTILINE)] == []
    assert [layer for layer in sorted(layers) if f"| `{layer}` |" not in page] == []


def test_every_alias_of_the_vocabulary_is_described(pages: Any) -> None:
    page = pages.text("telemetry.md")
    aliases = [alias.name for column in load_vocabulary().columns for alias in column.aliases]

    assert [name for name in aliases if f"`{name}`" not in page] == []


def test_every_example_of_a_configuration_loads(pages: Any, tmp_path: Path) -> None:
    blocks = list(pages.blocks("tokenweir.yaml"))

    assert len(blocks) >= 5
    for where, block in blocks:
        path = tmp_path / "tokenweir.yaml"
        path.write_text(block.text)
        assert load_settings(path, {}), where


def test_every_example_of_an_slo_loads_without_a_warning(pages: Any, tmp_path: Path) -> None:
    blocks = list(pages.blocks("slo.yaml"))

    assert len(blocks) >= 2
    for number, (where, block) in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block.text)
        found = read([path])
        assert (found.problems, found.warnings) == ((), ()), where
        assert found.every, where


def test_every_example_of_a_price_book_loads(pages: Any) -> None:
    blocks = list(pages.blocks("prices.yaml"))

    assert blocks
    for where, block in blocks:
        assert parse_price_book(block.text, where).gpus


def test_every_yaml_block_is_yaml(pages: Any) -> None:
    for title in ("", "scaledobject.yaml", "prometheus.yml"):
        for where, block in pages.blocks(title):
            if block.language == "yaml":
                assert yaml.safe_load(block.text), where


def test_every_json_block_is_json(pages: Any) -> None:
    for where, block in pages.blocks(""):
        if block.language == "json":
            assert json.loads(block.text), where


def test_every_module_that_the_pages_run_exists(pages: Any) -> None:
    named = {name for path in pages.files for name in MODULE.findall(path.read_text("utf-8"))}

    assert "stack.up" in named
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []


def test_the_snippet_verifies_a_signature_that_we_make(pages: Any) -> None:
    (_, block), *_ = pages.blocks("verify.py")
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102  the page's own code
    secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
    keys, at = [decode_secret(secret, where="test")], datetime(2026, 11, 30, tzinfo=UTC)
    headers = signature_headers(keys, "msg-1", at, b'{"a":1}')
    now = at.timestamp()

    assert names["verify"](headers, b'{"a":1}', secret, now) == "msg-1"
    with pytest.raises(ValueError, match="no signature fits"):
        names["verify"](headers, b'{"a":2}', secret, now)
    with pytest.raises(ValueError, match="too old"):
        names["verify"](headers, b'{"a":1}', secret, now + 400)


def test_the_snippets_of_telemetry_compile(pages: Any) -> None:
    for title in ("send.py", "alive.py"):
        (_, block), *_ = pages.blocks(title)
        assert compile(block.text, title, "exec")


def test_every_relative_link_resolves(pages: Any) -> None:
    broken = []
    for path in pages.files:
        for match in LINK.finditer(path.read_text("utf-8")):
            target, _, anchor = (match[1] or match[2]).partition("#")
            if "://" in target or target.startswith("mailto:") or "docs/img/" in target:
                continue  # the pictures are made by docs/screenshots.py from a running demo
            there = (path.parent / target).resolve() if target else path
            if not there.exists() or (anchor and anchor not in _anchors(there)):
                broken.append(f"{path.name}: {match[1] or match[2]}")

    assert not broken


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page(pages: Any) -> None:
    config = (pages.root / "mkdocs.yml").read_text("utf-8")
    named = re.findall(r"^  - .*: (\S+\.md)$", config, re.MULTILINE)

    assert sorted(named) == sorted(p.name for p in (pages.root / "docs").glob("*.md"))


def test_every_example_is_listed(pages: Any) -> None:
    folder = pages.root / "examples"
    listed = (folder / "README.md").read_text("utf-8")
    files = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]

    assert [str(p) for p in files if p.name != "README.md" and f"`{p}`" not in listed] == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(pages: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=pages.root, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting's name as the page writes it, and its default."""
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is None:
            yield prefix + name, _default(field.get_default(call_default_factory=True))
        else:
            section, is_list = inner
            yield from _settings(section, f"{prefix}{name}{'[]' if is_list else ''}.")


def _model_in(annotation: Any) -> tuple[type[BaseModel], bool] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for part in get_args(annotation):
        if isinstance(part, types.EllipsisType):
            continue
        found = _model_in(part)
        if found is not None:
            return found[0], found[1] or get_origin(annotation) in {tuple, Mapping}
    return None


def _default(value: Any) -> str:
    plain = {PydanticUndefined: "required", None: "unset", True: "true", False: "false"}
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    is_plain = value is None or isinstance(value, bool) or value is PydanticUndefined
    return plain[value] if is_plain else str(value)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        if name not in HIDDEN:
            yield from _commands(inner, f"{path} {name}")


def _spellings(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.name or ""]
    return [spelling for spelling in parameter.opts if spelling != "--help"]


def _section(page: str, heading: str) -> str:
    """Return what is under a heading, '' if it is missing."""
    return page.partition(heading)[2].partition("\n## ")[0]


def _openapi() -> dict[str, Any]:
    """Describe the API as the server does, of routers that are never called."""
    api = create_api(Readiness(), lambda: True, lambda _key, _loopback: True)
    nothing: Any = types.SimpleNamespace(signals=None, now=lambda: None)
    for router in (
        slo.api.router(nothing, nothing, nothing),
        alerts.api.router(nothing, nothing, nothing),
        alerts.api_v2.router(nothing, (), nothing, ""),
        actuators.api.router(nothing, nothing, nothing, nothing, nothing),
        cost.api.router(nothing, nothing, nothing),
        dashboards.api.router(nothing, nothing),
        collector.api.router(
            receiver_status=Path("nowhere"), pipeline=nothing, dead_letters=nothing,
            stored=lambda: (), watermarks=lambda _now: (), clock=nothing,
        ),
    ):  # fmt: skip
        api.include_router(router)
    return api.openapi()


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {_slug(heading) for heading in headings}


def _slug(heading: str) -> str:
    """Name a heading as mkdocs and GitHub do."""
    kept = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", kept)
