"""Sloth specs (`version: prometheus/v1` and the PrometheusServiceLevel CRD) -> native documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from base.durations import parse_duration
from base.errors import BadInput
from slo.imports.draft import Draft, name_of, number_of, shared, string_of, texts_of
from slo.imports.outcome import Imported, Refusal
from slo.imports.sli import Sli, foreign, ratio, raw
from slo.imports.tiers import StatedTier
from slo.located import Located
from slo.tiers import Tier
from slo.verdict import Severity

VERSION = "prometheus/v1"
CRD = "sloth.slok.dev/v1"
_ALERTS: tuple[tuple[Severity, str, str], ...] = (
    ("page", "page_alert", "pageAlert"),
    ("ticket", "ticket_alert", "ticketAlert"),
)
_DEFAULT_PERIOD = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class AlertWindows:
    """The alerts of one SLO period, as Sloth's AlertWindows state them."""

    period: timedelta
    tiers: tuple[tuple[Tier, Located], ...]


def is_sloth(document: Located) -> bool:
    version, api = string_of(document.get("version")), string_of(document.get("apiVersion"))
    return version.startswith("prometheus/") or api.startswith("sloth.slok.dev/")


def is_windows(document: Located) -> bool:
    return is_sloth(document) and string_of(document.get("kind")) == "AlertWindows"


def read_windows(document: Located) -> AlertWindows:
    """Read an AlertWindows: the factor of an alert is budget share x period / long window."""
    spec = document.get("spec")
    if spec is None:
        raise Refusal(document, "spec is missing")
    period = _span(spec, "sloPeriod")
    tiers: list[tuple[Tier, Located]] = []
    for severity, *_ in _ALERTS:
        for speed in ("quick", "slow"):
            at = (spec.get(severity) or spec).get(speed) if spec.get(severity) else None
            if at is None:
                continue
            share = number_of(at.get("errorBudgetPercent"))
            if share is None or share <= 0:
                raise Refusal(at, f"{severity}.{speed}.errorBudgetPercent is not a number above 0")
            long, short = _span(at, "longWindow"), _span(at, "shortWindow")
            factor = round(share / 100 * (period / long), 6)
            tiers.append((Tier(f"{severity}-{speed}", severity, factor, long, short), at))
    return AlertWindows(period, tuple(tiers))


def import_sloth(
    document: Located, windows: Sequence[AlertWindows]
) -> Iterator[Imported | Refusal]:
    """Yield one document, or why not, for each SLO of a spec."""
    spec = document
    if document.get("apiVersion") is not None:
        api = document.get("apiVersion")
        if string_of(api) != CRD:
            raise Refusal(api or document, f"apiVersion {string_of(api)!r} is not {CRD}")
        spec = document.get("spec") or document
    else:
        version = document.get("version")
        if string_of(version) != VERSION:
            raise Refusal(version or document, f"version {string_of(version)!r} is not {VERSION}")
    service = string_of(spec.get("service"))
    if not service:
        raise Refusal(spec, "service is missing")
    slos = spec.get("slos")
    if slos is None or not isinstance(slos.data, list) or not slos.data:
        raise Refusal(spec, "slos is missing: at least one is needed")
    for at in slos.data:
        draft = Draft(f"Sloth SLO {string_of(at.get('name'))!r}", at)
        try:
            yield _one(draft, spec, service, windows)
        except BadInput as error:
            where = error.at if isinstance(error, Refusal) else at
            yield Refusal(where, str(error), draft.what)


def _one(draft: Draft, spec: Located, service: str, windows: Sequence[AlertWindows]) -> Imported:
    at = draft.at
    name = at.get("name")
    if not string_of(name):
        raise Refusal(at, "name is missing")
    draft.set_name(name_of(service, string_of(name)))
    objective = at.get("objective")
    percent = number_of(objective)
    if objective is None or percent is None:
        raise Refusal(objective or at, "objective is not a number")
    draft.set_objective(percent, objective)
    draft.set_text("description", string_of(at.get("description")))
    draft.labels |= {"service": service} | texts_of(spec.get("labels")) | texts_of(at.get("labels"))
    sli_at = at.get("sli")
    if sli_at is None:
        raise Refusal(at, "sli is missing")
    sli = _sli(sli_at, name_of(service, string_of(name)))
    draft.set_sli(sli, sli_at)
    if sli.draft:
        plugin = sli_at.get("plugin")
        draft.annotations["sli_origin"] = str((plugin or sli_at).plain())
    for key in ("plugins", "slo_plugins", "sloPlugins"):
        for holder in (spec, at):
            if holder.get(key) is not None:
                draft.lost(f"{key}: Sloth's plugins change its own rules", holder.get(key))
    _period(draft, windows)
    _alerting(draft, at.get("alerting"), windows, is_crd=spec.get("version") is None)
    plugins = ("plugins", "slo_plugins", "sloPlugins")
    draft.lose_rest(at, "name", "objective", "description", "labels", "sli", "alerting", *plugins)
    draft.lose_rest(spec, "version", "service", "labels", "slos", *plugins)
    draft.lose_rest(sli_at, "events", "raw", "plugin")
    alerting = at.get("alerting")
    alerts = [name for _, *names in _ALERTS for name in names]
    draft.lose_rest(alerting, "name", "labels", "annotations", *alerts)
    for each in alerts:
        draft.lose_rest(
            alerting.get(each) if alerting else None, "disable", "labels", "annotations"
        )
    return draft.finish()


def _sli(at: Located, name: str) -> Sli:
    events, ratio_at = at.get("events"), at.get("raw")
    if events is not None:
        error, total = _either(events, "error_query", "errorQuery"), _either(
            events, "total_query", "totalQuery"
        )  # fmt: skip
        if error is None or total is None:
            raise Refusal(events, "events has both error_query and total_query")
        return _told(error, lambda: ratio("bad", string_of(error), string_of(total)))
    if ratio_at is not None:
        query = _either(ratio_at, "error_ratio_query", "errorRatioQuery")
        if query is None:
            raise Refusal(ratio_at, "raw has error_ratio_query")
        return _told(query, lambda: raw(string_of(query)))
    if at.get("plugin") is not None:
        return foreign(name, "a Sloth plugin")
    raise Refusal(at, "sli has one of events, raw and plugin")


def _told(at: Located, make: Callable[[], Sli]) -> Sli:
    """Make an SLI; what is wrong with its query is wrong at `at`."""
    try:
        return make()
    except BadInput as error:
        raise Refusal(at, str(error)) from error


def _period(draft: Draft, windows: Sequence[AlertWindows]) -> None:
    chosen = _chosen(windows)
    if chosen is None:
        draft.kept("window 30d, which is Sloth's default period: its specs do not say one")
    else:
        draft.set_window(chosen.period, draft.at)
        draft.kept("the window is the period of the AlertWindows that were read")


def _chosen(windows: Sequence[AlertWindows]) -> AlertWindows | None:
    """Take the only AlertWindows, or those of Sloth's default period."""
    default = [each for each in windows if each.period == _DEFAULT_PERIOD]
    return windows[0] if len(windows) == 1 else default[0] if default else None


def _alerting(
    draft: Draft, at: Located | None, windows: Sequence[AlertWindows], *, is_crd: bool
) -> None:
    off: set[Severity] = set()
    labels: dict[Severity, dict[str, str]] = {"page": {}, "ticket": {}}
    if at is not None:
        draft.labels |= texts_of(at.get("labels"))
        draft.annotations |= texts_of(at.get("annotations"))
        if string_of(at.get("name")):
            draft.annotations["alert_name"] = string_of(at.get("name"))
        texts: dict[Severity, dict[str, str]] = {"page": {}, "ticket": {}}
        for severity, plain, camel in _ALERTS:
            alert = _either(at, plain, camel)
            if alert is None:
                continue
            if alert is at.get(camel) and not is_crd:
                draft.fixed(f"{camel} is the CRD's spelling: it is read as {plain}", alert)
            disable = alert.get("disable")
            if disable is not None and disable.data is True:
                off.add(severity)
            labels[severity] = texts_of(alert.get("labels"))
            texts[severity] = texts_of(alert.get("annotations"))
        _labels(draft, labels, texts, at)
    if len(off) == 2:
        draft.no_alerts(at)
        return
    chosen = _chosen(windows)
    if chosen is not None and chosen.tiers:
        draft.set_tiers([
            StatedTier(tier, where) for tier, where in chosen.tiers if tier.severity not in off
        ])  # fmt: skip
    elif off:
        draft.only_alerts("ticket" if "page" in off else "page", at)
    else:
        draft.kept("alerts are derived from the objective: Sloth's four where they can fire", at)


def _labels(
    draft: Draft,
    labels: dict[Severity, dict[str, str]],
    annotations: dict[Severity, dict[str, str]],
    at: Located,
) -> None:
    for severity in ("page", "ticket"):
        stated = labels[severity].pop("severity", None)
        if stated is not None and stated != severity:
            draft.fixed(
                f"the label severity={stated} of {severity} alerts is severity={severity} here: "
                "route on that",
                at,
            )
    for target, found in ((draft.labels, labels), (draft.annotations, annotations)):
        agreed, differ = shared(found["page"], found["ticket"])
        target.update(agreed)
        for key, (page, ticket) in differ.items():
            draft.annotations |= {f"page_{key}": page, f"ticket_{key}": ticket}
            draft.fixed(
                f"{key} is {page!r} on pages and {ticket!r} on tickets: an SLO has one set of "
                f"labels, so both are annotations, page_{key} and ticket_{key}",
                at,
            )
        only = [key for key in agreed if (key in found["page"]) != (key in found["ticket"])]
        if only and found["page"] != found["ticket"]:
            draft.fixed(f"{', '.join(sorted(only))}: stated for one severity, here on both", at)


def _either(at: Located, plain: str, camel: str) -> Located | None:
    return at.get(plain) or at.get(camel)


def _span(at: Located, key: str) -> timedelta:
    found = at.get(key)
    if found is None:
        raise Refusal(at, f"{key} is missing")
    try:
        return parse_duration(string_of(found))
    except BadInput as error:
        raise Refusal(found, f"{key}: {error}") from error
