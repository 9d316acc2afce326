from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from slo.tenant_view import visible_to
from slo.verdict import Causes, Surge, Verdict
from tests.alerts.conftest import verdict

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def surge(dimension: str, value: str) -> Surge:
    return Surge(dimension, value, "requests", 600.0, 6.0)


def burning(group: dict[str, str], *surges: Surge) -> Verdict:
    causes = Causes(since=SINCE, reasons=(), suspects=(), surges=surges, traces=("0af7",))
    return replace(verdict(group=group), causes=causes)


def test_a_tenant_sees_its_own_groups_and_no_sum_over_everybody() -> None:
    own = verdict(group={"tenant": "acme", "route": "/chat"})
    others = [verdict(group={"tenant": "globex"}), verdict(group={}), verdict(group={"route": "x"})]

    assert visible_to("acme", [*others, own]) == [own]


def test_a_tenant_is_not_told_who_else_sends_more() -> None:
    told = burning({"tenant": "acme"}, surge("tenant", "globex"), surge("user_id", "ada"))
    itself = burning({"tenant": "acme"}, surge("tenant", "acme"))

    (first, second) = visible_to("acme", [told, itself])

    assert first.causes is not None
    assert (first.causes.surges, first.causes.traces) == ((), ("0af7",))
    assert second == itself
