from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from base.errors import BadInput, ConfigError
from stack.registry.app import Registry, load_registry
from stack.registry.catalog import Catalog
from stack.registry.entries import ModelEntry, mismatches
from stack.registry.identity import ask_identity, check_identity


def test_an_engine_may_be_silent_about_a_part_unless_it_is_required() -> None:
    entry = ModelEntry(
        name="m", digests={"weights": "sha256:a", "engine": "vllm-1"}, required=("weights",)
    )

    assert mismatches(entry, {"weights": "sha256:a"}) == []
    assert mismatches(entry, {"weights": "sha256:b", "engine": "vllm-2"}) == [
        "weights is sha256:b, registered is sha256:a",
        "engine is vllm-2, registered is vllm-1",
    ]
    assert mismatches(entry, {"engine": "vllm-1"}) == ["weights is not reported"]


async def test_an_entry_is_put_listed_and_found_again_after_a_restart(
    bench: Any, tmp_path: Path
) -> None:
    path = tmp_path / "registry.yaml"
    url = await bench.serve(load_registry(path).app)

    put = await bench.http.put(f"{url}/models/org/tiny", json={"digests": {"weights": "sha256:a"}})
    bad = await bench.http.put(f"{url}/models/x", json={"digests": {"colour": "red"}})
    worse = await bench.http.put(f"{url}/models/x", content=b"[")
    missing = await bench.http.get(f"{url}/models/nope")

    assert put.status_code == 200
    assert (bad.status_code, worse.status_code, missing.status_code) == (400, 400, 404)
    again = await bench.serve(load_registry(path).app)
    assert (await bench.http.get(f"{again}/models/org/tiny")).json() == {
        "name": "org/tiny",
        "digests": {"weights": "sha256:a"},
        "required": [],
    }
    assert len((await bench.http.get(f"{again}/models")).json()["models"]) == 1


def test_a_registry_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text("models: [{name: a, digests: {colour: red}}]")

    with pytest.raises(ConfigError, match=r"registry\.yaml"):
        load_registry(path)


async def test_real_vllm_is_known_by_its_version(bench: Any) -> None:
    _, url = await bench.engine()

    identity = await ask_identity(url, bench.http)

    assert identity.models == ("tiny",)
    assert identity.digests == {"engine": "vllm-0.32.0"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (ModelEntry(name="other"), "'tiny' is not registered"),
        (ModelEntry(name="tiny", digests={"engine": "vllm-0.33.0"}), "engine is vllm-0.32.0"),
        (ModelEntry(name="tiny", digests={"weights": "b"}), "weights is a, registered is b"),
        (ModelEntry(name="tiny", required=("tokenizer",)), "tokenizer is not reported"),
    ],
)
async def test_the_router_refuses_an_engine_that_is_not_what_is_registered(
    bench: Any, entry: ModelEntry, says: str
) -> None:
    engine, engine_url = await bench.engine()
    engine.digests = {"weights": "a"}
    catalog = Catalog(await bench.serve(Registry([entry]).app), bench.http)
    url = await bench.router(catalog=catalog)

    answer = await bench.http.post(f"{url}/add_worker", params={"url": engine_url})

    assert (answer.status_code, answer.json()["code"]) == (400, "model_mismatch")
    assert says in answer.json()["error"]
    assert (await bench.http.get(f"{url}/list_workers")).json() == {"urls": []}


async def test_an_engine_that_matches_is_accepted(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    engine.digests = {"weights": "a", "engine": "vllm-0.32.0"}
    entry = ModelEntry(name="tiny", digests={"weights": "a"}, required=("weights", "engine"))
    catalog = Catalog(await bench.serve(Registry([entry]).app), bench.http)
    url = await bench.router(catalog=catalog)

    answer = await bench.http.post(f"{url}/add_worker", params={"url": engine_url})

    assert answer.status_code == 200


async def test_a_catalog_keeps_what_it_knows_while_the_registry_is_away(bench: Any) -> None:
    url = await bench.serve(Registry([ModelEntry(name="tiny")]).app)
    catalog = Catalog(url, bench.http)
    before = catalog.knows("anything")
    await catalog.refresh()
    await bench.listeners[url].stop()

    refreshed = await catalog.refresh()

    assert before
    assert not refreshed
    assert catalog.knows("tiny")
    assert not catalog.knows("anything")


def test_without_a_registry_every_engine_is_accepted() -> None:
    from stack.registry.identity import Identity

    check_identity(Identity(()), None)
    with pytest.raises(BadInput, match="no model"):
        check_identity(Identity(()), {})
