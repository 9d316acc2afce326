"""Why a tool's figure and an SLI differ over the same requests, each counted once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slo.goodput.figure import DROPPED, GOOD, MISSED, Figure, Mode
from slo.goodput.requests import Requests

_SINGLE = "the answer has one token, so no TPOT"
_NO_TTFT = "TTFT is not known (not streamed)"
_NO_COUNT = "the number of tokens is not known"
_MEASURED = "measured otherwise (in seconds, on a limit), or a clause that one of both does not ask"


@dataclass(frozen=True, slots=True)
class Difference:
    """Requests that both see differently: `tool` and `own` say how, `why` what it comes from."""

    tool: str
    own: str
    why: str
    requests: int


@dataclass(frozen=True, slots=True)
class Own:
    """The SLI over the same requests."""

    good: int
    bad: int
    excluded: int
    reasons: Mapping[str, int]

    @property
    def sli(self) -> float | None:
        total = self.good + self.bad
        return self.good / total if total else None


def own_of(requests: Requests) -> Own:
    """Count what the SLO made of the requests."""
    kinds = Counter(requests.own.tolist())
    reasons = Counter(requests.reason[requests.own == "bad"].tolist())
    return Own(kinds["good"], kinds["bad"], kinds["excluded"], dict(reasons.most_common()))


def differences(requests: Requests, found: Figure) -> tuple[Difference, ...]:
    """List every way in which both part, the most frequent first.

    good of the tool - good of the SLI = requests of "good" here and not there, less the reverse.
    """
    said = {GOOD: "good", MISSED: "missed", DROPPED: "left out"}
    counted: Counter[tuple[str, str, str]] = Counter()
    for verdict, tool in said.items():
        for own in ("good", "bad", "excluded"):
            rows = np.flatnonzero((found.verdict == verdict) & (requests.own == own))
            if rows.size and not _agree(tool, own):
                for why, count in _whys(requests, found.mode, tool, own, rows).items():
                    counted[tool, own, why] += count
    return tuple(
        Difference(tool, own, why, count) for (tool, own, why), count in counted.most_common()
    )


def _agree(tool: str, own: str) -> bool:
    return (tool, own) in {("good", "good"), ("missed", "bad"), ("left out", "excluded")}


def _whys(
    requests: Requests, mode: Mode, tool: str, own: str, rows: np.typing.NDArray[np.intp]
) -> Mapping[str, int]:
    if tool == "left out":
        answered = requests.succeeded[rows]
        return {
            **_by_reason(requests, rows[~answered], "the request failed"),
            **_by_reason(requests, rows[answered], "the tool could not measure it"),
        }
    if own == "excluded":
        return {"the client's own mistake, or a tenant over its quota": rows.size}
    failed_rows = ~requests.succeeded[rows]
    found: Counter[str] = Counter()
    for why, count in _by_reason(requests, rows[failed_rows], "the request failed").items():
        found[why] += count
    rest = rows[~failed_rows]
    one, no_ttft, no_count = (
        requests.tokens[rest] <= 1,
        np.isnan(requests.ttft_ms[rest]),
        np.isnan(requests.tokens[rest]),
    )
    found[_NO_TTFT] += int(no_ttft.sum())
    found[_SINGLE] += int((one & ~no_ttft).sum())
    found[_NO_COUNT] += int((no_count & ~no_ttft).sum())
    others = rest[~(one | no_ttft | no_count)]
    if own == "bad":
        for why, count in _by_reason(requests, others, "missed here").items():
            found[why] += count
    elif mode is Mode.ETALON:
        found["more than one token in ten was late"] += others.size
    else:
        found[_MEASURED] += others.size
    return +found


def _by_reason(
    requests: Requests, rows: Sequence[int] | np.typing.NDArray[np.intp], what: str
) -> Mapping[str, int]:
    counted = Counter(requests.reason[np.asarray(rows, np.intp)].tolist())
    return {f"{what}: {reason}" if reason else what: count for reason, count in counted.items()}
