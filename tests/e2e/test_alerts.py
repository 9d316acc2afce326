"""From bad spans to a signed page and its resolve, across restarts and crashes."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.instance import Instance, serving, ticks_pass, wait_for
from tests.e2e.pager import Pager
from tests.e2e.stream import streaming

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-alerts"), pytest.mark.timeout(400)]

SLO = """
kind: slo
name: chat
objective: 95
window: 30m
group_by: [tenant]
tiers:
  - {name: fast, severity: page, factor: 6, long: 2m, short: 1m}
"""


@pytest.fixture
def pager() -> Iterator[Pager]:
    pager = Pager(f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}")
    yield pager
    pager.close()


@pytest.fixture
def instance(tmp_path: Path, pager: Pager) -> Iterator[Instance]:
    (tmp_path / "slo.yaml").write_text(SLO)
    (tmp_path / "secret").write_text(pager.secret)
    receiver = {"name": "pager", "type": "webhook", "url": pager.url, "secret_file": "secret"}
    settings = {
        "slo": {"evaluate_every": "1s"},
        "alerts": {"receivers": [receiver], "group_wait": "0s", "keep_firing_for": "1s"},
    }
    (tmp_path / "tokenweir.yaml").write_text(yaml.safe_dump(settings))
    options = ["--config", tmp_path / "tokenweir.yaml", "--slo", tmp_path / "slo.yaml"]
    with serving(tmp_path / "data", options) as running:
        yield running


def test_a_page_and_its_resolve_come_once_whatever_dies_in_between(
    instance: Instance, pager: Pager
) -> None:
    pager.answer = 503  # out of order when the alert fires
    with streaming(instance) as stream:
        stream.is_bad = True
        stream.burst(60, is_bad=True)
        firing = wait_for("a firing alert", lambda: the_alert(instance, "firing"))
        assert firing["slo"] == "chat"
        assert firing["group"] == {"tenant": "acme"}
        assert firing["severity"] == "page"
        wait_for("a try", lambda: pager.deliveries)
        assert pager.pages == []

        instance.kill()
        instance.start()
        pager.answer = 200
        wait_for("the page", lambda: pager.pages)
        tried = {page.id for page in pager.deliveries}
        assert len(tried) == 1, "a page that is tried again is the same page"
        assert the_alert(instance, "firing")["episode"] == firing["episode"]

        assert instance.stop() == 0
        instance.start()
        ticks_pass(instance, 5)
        assert [page.body["status"] for page in pager.pages] == ["firing"], "nothing is repeated"
        assert the_alert(instance, "firing")["episode"] == firing["episode"]

        stream.is_bad = False
        stream.burst(3000, is_bad=False)
        wait_for("the resolve", lambda: len(pager.pages) == 2)
        resolved = wait_for("a resolved alert", lambda: the_alert(instance, "resolved"))
        assert resolved["episode"] == firing["episode"]

        instance.kill()
        instance.start()
        ticks_pass(instance, 5)

    assert [page.body["status"] for page in pager.pages] == ["firing", "resolved"]
    assert pager.unsigned == []
    for page in pager.pages:
        [alert] = page.body["alerts"]
        assert page.body["version"] == "4"
        assert alert["labels"]["slo"] == "chat"
        assert alert["labels"]["tenant"] == "acme"
        assert alert["fingerprint"] == firing["fingerprint"]
    told = the_alert(instance, "resolved")["notifications"]
    assert [each["status"] for each in told] == ["delivered", "delivered"]
    assert {each["receiver"] for each in told} == {"pager"}


def the_alert(instance: Instance, state: str) -> dict[str, Any] | None:
    found = instance.ask("alerts", state=state)["alerts"]
    assert len(found) <= 1
    return found[0] if found else None
