from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from alerts.notifiers.pagerduty import PagerDuty
from alerts.notifiers.webhook import Webhook
from alerts.receivers import open_receivers, pagers
from alerts.settings import AlertSettings
from base.errors import ConfigError

WEBHOOK = {"name": "pager", "type": "webhook", "url": "http://127.0.0.1:1/"}
KEY = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


def read(**section: Any) -> AlertSettings:
    return AlertSettings.model_validate(section)


def test_nothing_needs_to_be_set() -> None:
    settings = read()

    assert (settings.receivers, settings.keep_firing_for) == ((), None)
    assert open_receivers(settings) == ()


def test_durations_are_written_as_people_write_them() -> None:
    settings = read(group_wait="2s", repeat_interval="1h30m")

    assert (settings.group_wait, settings.repeat_interval) == (
        timedelta(seconds=2),
        timedelta(minutes=90),
    )


@pytest.mark.parametrize(
    ("receiver", "complaint"),
    [
        ({"name": "p", "type": "pagerduty"}, "needs routing_key or routing_key_file"),
        ({"name": "p", "type": "webhook"}, "needs a url"),
        ({"name": "p", "type": "webhook", "url": "ftp://x"}, "http://"),
        ({**WEBHOOK, "secret": "a", "secret_file": "b"}, "not both"),
        ({**WEBHOOK, "name": "a b"}, "pattern"),
        ({**WEBHOOK, "colour": "red"}, "colour"),
        ({**WEBHOOK, "severities": ["loud"]}, "page"),
        ({**WEBHOOK, "name": "watchdog"}, "reserved"),
    ],
)
def test_a_wrong_receiver_is_named(receiver: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        read(receivers=[receiver])


def test_two_receivers_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="used twice"):
        read(receivers=[WEBHOOK, WEBHOOK])


def test_secrets_come_from_files_and_two_lines_rotate(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{KEY}\n\nwhsec_{'MTIz' * 8}\n")
    (receiver,) = open_receivers(read(receivers=[{**WEBHOOK, "secret_file": str(path)}]))

    assert isinstance(receiver.notifier, Webhook)
    assert receiver.notifier.keys == (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"123" * 8)


def test_a_missing_or_empty_secret_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path / "empty"):
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(ConfigError, match=r"receivers\[pager\].secret_file"):
            open_receivers(read(receivers=[{**WEBHOOK, "secret_file": str(path)}]))


def test_settings_never_print_a_secret() -> None:
    settings = read(receivers=[{**WEBHOOK, "secret": KEY}])

    assert KEY not in repr(settings)
    assert KEY not in settings.model_dump_json()


def test_pagerduty_needs_only_its_key_and_an_alertmanager_is_reminded_every_minute() -> None:
    pagerduty, alertmanager = open_receivers(
        read(
            receivers=[
                {"name": "pd", "type": "pagerduty", "routing_key": "R" * 32},
                {"name": "am", "type": "alertmanager", "url": "http://127.0.0.1:9093"},
            ]
        )
    )

    assert isinstance(pagerduty.notifier, PagerDuty)
    assert pagerduty.repeat_interval == timedelta(hours=4)
    assert (alertmanager.repeat_interval, alertmanager.has_memory) == (timedelta(minutes=1), False)


def test_the_heartbeat_is_a_receiver_that_hears_of_no_alert(say: SimpleNamespace) -> None:
    settings = say.settings(watchdog={"url": "http://127.0.0.1:1/beat"})

    assert [r.name for r in open_receivers(settings)] == ["pager", "watchdog"]
    assert [r.name for r in pagers(open_receivers(settings))] == ["pager"]


def test_a_changed_secret_is_a_changed_configuration() -> None:
    one, same, other = (
        open_receivers(read(receivers=[{**WEBHOOK, "secret": key}]))[0].config
        for key in (KEY, KEY, "whsec_" + "MTIz" * 8)
    )

    assert one == same != other
