"""The real program, as a process on a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.instance import ROOT, Instance, serving

Start = Callable[..., Instance]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start instances; each is stopped at the end and must then exit with 0."""
    started: list[Instance] = []

    def begin(*options: str | Path, name: str = "data") -> Instance:
        instance = Instance(tmp_path / name, options)
        started.append(instance)
        return instance.start()

    yield begin
    assert [instance.stop() for instance in started] == [0] * len(started)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """One instance for a file of tests, with the example SLOs and prices."""
    folder = tmp_path_factory.mktemp("running")
    config = folder / "tokenweir.yaml"
    config.write_text(f"cost: {{prices: {ROOT / 'examples/prices/demo.yaml'}}}\n")
    slos = [ROOT / "examples/slo/production.yaml", ROOT / "examples/slo/cost.yaml"]
    options = ("--config", config, "--slo", slos[0], "--slo", slos[1])
    with serving(folder / "data", options) as instance:
        yield instance
