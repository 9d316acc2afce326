"""Pyrra's ServiceLevelObjective (the CRD, and its spec written plain) -> native documents."""

from __future__ import annotations

from collections.abc import Callable

from base.durations import format_duration, parse_duration
from base.errors import BadInput
from slo.imports import promql
from slo.imports.draft import Draft, number_of, string_of, texts_of
from slo.imports.outcome import Imported, Refusal
from slo.imports.sli import Sli, ratio
from slo.located import Located

_INDICATORS = ("ratio", "latency", "latencyNative", "bool_gauge")
_PROPAGATED = "pyrra.dev/"  # labels and annotations with this prefix are those of the alerts


def is_pyrra(document: Located) -> bool:
    if string_of(document.get("apiVersion")).startswith("pyrra.dev/"):
        return True
    spec = document.get("spec") or document
    indicator = spec.get("indicator")
    # Written by generators that leave the group out: apiVersion: v1alpha1.
    is_unnamed = string_of(document.get("kind")) in {"", "ServiceLevelObjective"}
    return (
        "/" not in string_of(document.get("apiVersion"))
        and is_unnamed
        and spec.get("target") is not None
        and indicator is not None
        and any(indicator.get(kind) is not None for kind in _INDICATORS)
    )


def import_pyrra(document: Located) -> Imported:
    kind = document.get("kind")
    if kind is not None and string_of(kind) != "ServiceLevelObjective":
        raise Refusal(kind, f"kind {string_of(kind)!r} is not ServiceLevelObjective")
    spec, metadata = document.get("spec") or document, document.get("metadata")
    name = (metadata.get("name") if metadata else None) or document.get("name")
    if not string_of(name):
        raise Refusal(metadata or document, "metadata.name is missing")
    draft = Draft(f"Pyrra SLO {string_of(name)!r}", document)
    draft.set_name(string_of(name), name)
    _target(draft, spec)
    window = spec.get("window")
    if window is None:
        raise Refusal(spec, "window is missing")
    draft.set_window_text(string_of(window), window)
    draft.set_text("description", string_of(spec.get("description")))
    indicator = spec.get("indicator")
    if indicator is None:
        raise Refusal(spec, "indicator is missing")
    draft.set_sli(_sli(indicator), indicator)
    if metadata is not None:
        _metadata(draft, metadata)
    _alerting(draft, spec.get("alerting"))
    strategy = spec.get("partial_response_strategy")
    if strategy is not None:
        draft.lost("partial_response_strategy is for Thanos' ruler", strategy)
    draft.lose_rest(
        spec, "target", "window", "description", "indicator", "alerting",
        "partial_response_strategy", "apiVersion", "kind", "metadata", "spec", "name", "status",
    )  # fmt: skip
    draft.lose_rest(document, "apiVersion", "kind", "metadata", "spec", "status", *spec.data)
    draft.lose_rest(metadata, "name", "namespace", "labels", "annotations")
    for kind_of_sli in _INDICATORS:
        draft.lose_rest(
            indicator.get(kind_of_sli), "errors", "success", "total", "latency", "metric",
            "grouping",
        )  # fmt: skip
    draft.lose_rest(spec.get("alerting"), "disabled", "burnrates", "absent", "absentName", "name")
    return draft.finish()


def _target(draft: Draft, spec: Located) -> None:
    target = spec.get("target")
    percent = number_of(target)
    if target is None or percent is None:
        raise Refusal(target or spec, "target is not a percentage such as '99.9'")
    if 0 < percent < 1:
        draft.lost(
            f"target {percent:g} is taken as it is, {percent:g} %: Pyrra counts from 0 to 100; "
            f"write {percent * 100:g} if that was meant",
            target,
        )
    draft.set_objective(percent, target)


def _sli(indicator: Located) -> Sli:
    stated = [kind for kind in _INDICATORS if indicator.get(kind) is not None]
    if len(stated) != 1:
        raise Refusal(indicator, f"indicator has one of {', '.join(_INDICATORS)}")
    at = indicator.get(stated[0])
    assert at is not None  # noqa: S101  it is the one that was found
    grouping = at.get("grouping")
    by = tuple(string_of(item) for item in grouping.data) if grouping is not None else ()
    make: dict[str, Callable[[], Sli]] = {
        "ratio": lambda: ratio("bad", _metric(at, "errors"), _metric(at, "total"), by),
        "latency": lambda: _latency(at, by),
        "latencyNative": lambda: _native(at, by),
        "bool_gauge": lambda: Sli({"gauge": _selector(at, at.get("metric"))}, by),
    }
    return make[stated[0]]()


def _latency(at: Located, by: tuple[str, ...]) -> Sli:
    success = _metric(at, "success")
    sli = ratio("good", success, _metric(at, "total"), by)
    return sli if "le=" in success else sli.say(
        "lost", "the good series names no bucket (le): check that it counts what is fast enough"
    )  # fmt: skip


def _native(at: Located, by: tuple[str, ...]) -> Sli:
    latency = at.get("latency")
    if latency is None:
        raise Refusal(at, "latencyNative.latency is missing")
    try:
        limit = parse_duration(string_of(latency))
    except BadInput as error:
        raise Refusal(latency, f"latency: {error}") from error
    fields = {"native_histogram": _metric(at, "total"), "threshold": format_duration(limit)}
    return Sli(fields, by).say("kept", "the native histogram, cut at the threshold")


def _metric(at: Located, key: str) -> str:
    holder = at.get(key)
    if holder is None:
        raise Refusal(at, f"{key}.metric is missing")
    return _selector(holder, holder.get("metric"))


def _selector(holder: Located, at: Located | None) -> str:
    if at is None or not string_of(at):
        raise Refusal(holder, "metric is missing")
    try:
        found = promql.selector_of(promql.tidy(string_of(at)))
    except BadInput as error:
        raise Refusal(at, str(error)) from error
    if found is None:
        raise Refusal(at, f'metric {string_of(at)!r} is not a selector such as x{{a="b"}}')
    return found


def _metadata(draft: Draft, metadata: Located) -> None:
    for key, value in texts_of(metadata.get("labels")).items():
        draft.labels[key.removeprefix(_PROPAGATED)] = value
    for key, value in texts_of(metadata.get("annotations")).items():
        draft.annotations[key.removeprefix(_PROPAGATED)] = value
    namespace = string_of(metadata.get("namespace"))
    if namespace:
        draft.labels.setdefault("namespace", namespace)


def _alerting(draft: Draft, at: Located | None) -> None:
    absent = at.get("absent") if at else None
    if absent is None or absent.data is True:
        draft.lost("absent: silence is a state of the verdict here (STALE, NO_TRAFFIC)", absent)
    if at is None:
        draft.kept("alerts are derived from the objective; Pyrra's factors were 14, 7, 2 and 1")
        return
    name = string_of(at.get("name"))
    if name:
        draft.annotations["alert_name"] = name
    disabled, burnrates = at.get("disabled"), at.get("burnrates")
    if (disabled is not None and disabled.data is True) or (
        burnrates is not None and burnrates.data is False
    ):
        draft.no_alerts(at)
