"""slo-generator's configs (v1, v2, and v2 before its release) -> native documents.

Windows and alerts are not in them but in the error budget policy of another file: each of its steps
is a window of its own there. The budget window is taken as 30 days and the alerts are derived.
"""

from __future__ import annotations

import json
import re

from base.durations import format_duration
from base.errors import BadInput
from slo.checks import DEFAULT_WINDOW
from slo.imports.draft import Draft, name_of, number_of, string_of, texts_of
from slo.imports.outcome import Imported, Refusal
from slo.imports.sli import Sli, foreign, ratio, raw
from slo.located import Located

VERSION = "sre.google.com/v2"
_BEFORE = "cloud.google.com/v1"
"""What v2 was called before its release, with the names of fields in camel case."""

_RANGE = re.compile(r"\[\s*\$?window\s*\]\s*$")
"""Behind a filter: slo-generator takes the increase over it, which counting does anyway."""

_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


def is_slo_generator(document: Located) -> bool:
    version = string_of(_version(document))
    if version == _BEFORE:
        return string_of(document.get("kind")) == "ServiceLevelObjective"
    return version.startswith("sre.google.com/") or (
        document.get("slo_name") is not None and document.get("slo_target") is not None
        and document.get("backend") is not None
    )  # fmt: skip


def import_slo_generator(document: Located) -> Imported:
    version = _version(document)
    if version is None:
        return _v1(document)
    if string_of(version) not in {VERSION, _BEFORE}:
        raise Refusal(version or document, f"apiVersion {string_of(version)!r} is not {VERSION}")
    metadata, spec = document.get("metadata"), document.get("spec")
    name = metadata.get("name") if metadata else None
    if not string_of(name) or spec is None:
        raise Refusal(document, "metadata.name and spec are needed")
    draft = Draft(f"slo-generator SLO {string_of(name)!r}", document)
    draft.set_name(string_of(name), name)
    if metadata is not None:
        draft.labels |= texts_of(metadata.get("labels"))
        draft.annotations |= texts_of(metadata.get("annotations"))
    indicator = spec.get("service_level_indicator") or spec.get("serviceLevelIndicator")
    if indicator is None:
        raise Refusal(spec, "service_level_indicator is missing")
    backend, method = string_of(spec.get("backend")), string_of(spec.get("method"))
    _rest(draft, spec, "goal", backend, method, indicator)
    draft.set_text("description", string_of(spec.get("description")))
    return draft.finish()


def _version(document: Located) -> Located | None:
    return document.get("apiVersion") or document.get("version")


def _v1(document: Located) -> Imported:
    parts = [string_of(document.get(f"{part}_name")) for part in ("service", "feature", "slo")]
    draft = Draft(f"slo-generator SLO {name_of(*parts)!r}", document)
    draft.set_name(name_of(*parts))
    draft.labels |= {
        f"{part}_name": value
        for part, value in zip(("service", "feature", "slo"), parts, strict=True)
        if value
    }
    backend = document.get("backend")
    measurement = backend.get("measurement") if backend else None
    if backend is None or measurement is None:
        raise Refusal(backend or document, "backend.measurement is missing")
    system, method = string_of(backend.get("class")), string_of(backend.get("method"))
    _rest(draft, document, "slo_target", system, method, measurement)
    draft.set_text("description", string_of(document.get("slo_description")))
    return draft.finish()


def _rest(
    draft: Draft, spec: Located, goal: str, backend: str, method: str, indicator: Located
) -> None:
    target = spec.get(goal)
    share = number_of(target)
    if target is None or share is None:
        raise Refusal(target or spec, f"{goal} is not a share such as 0.999")
    draft.set_objective(share * 100, target)
    sli = _sli(draft, backend, method, indicator)
    draft.set_sli(sli, indicator)
    if sli.draft:
        draft.annotations["sli_origin"] = json.dumps(
            {"backend": backend, "method": method, **indicator.plain()}, sort_keys=True
        )
    if spec.get("exporters") is not None:
        draft.lost("exporters: verdicts are read from the API and /metrics", spec.get("exporters"))
    policy = spec.get("error_budget_policy")
    draft.fixed(
        f"the window is {format_duration(DEFAULT_WINDOW)} and alerts are derived: "
        "slo-generator keeps both in the error budget policy of another file",
        policy,
    )


def _sli(draft: Draft, backend: str, method: str, at: Located) -> Sli:
    name = string_of(draft.at.get("name")) or draft.what.split("'")[1]
    if backend.partition("/")[0].lower() != "prometheus":
        return foreign(name_of(name), backend or "an unnamed backend")
    texts = {
        _CAMEL.sub(lambda capital: f"_{capital[1].lower()}", key): string_of(value)
        for key, value in at.data.items()
    }
    try:
        if method == "query_sli" or "expression" in texts:
            return raw(texts.get("expression", ""), success=True)
        return _good_bad(at, texts)
    except BadInput as error:
        raise error if isinstance(error, Refusal) else Refusal(at, str(error)) from error


def _good_bad(at: Located, texts: dict[str, str]) -> Sli:
    good, bad, valid = (
        _RANGE.sub("", texts.get(f"filter_{part}") or texts.get(f"query_{part}") or "")
        for part in ("good", "bad", "valid")
    )
    if good and valid:
        return ratio("good", good, valid)
    if bad and valid:
        return ratio("bad", bad, valid)
    if good and bad:
        total = f"(sum(increase({good}[$window])) or vector(0)) + sum(increase({bad}[$window]))"
        return Sli({"total_query": total, "bad_query": f"sum(increase({bad}[$window]))"}).say(
            "kept", "the total is good and bad together"
        )
    expression = texts.get("filter") or texts.get("expression")
    raise Refusal(at, f"no pair of good, bad and valid filters is stated ({expression or 'none'})")
