"""How a request ended: good, bad or excluded, with a reason.

Explicit words of our gateway win. Otherwise: what the service got wrong is bad; what the caller got
wrong, or a tenant over its own quota, is excluded; a caller who left a healthy stream is good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.span_set import Flags, Reals, Texts

ERROR = 2  # OpenTelemetry's status code

# An explicit outcome without a reason gets this one.
_DEFAULT_REASON = {"good": "ok", "bad": "error", "excluded": "excluded"}


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of how some requests ended, one value for each.

    `said_outcome` and `said_reason` are '' if nobody said, `http_status` NaN for none. `is_error`
    is the anchor's span status; `may_leave`: the anchor is a caller's own span or a router's;
    `is_answered`: an engine finished, or a first token or a response head was seen.
    """

    said_outcome: Texts
    said_reason: Texts
    http_status: Reals
    is_error: Flags
    may_leave: Flags
    is_answered: Flags


def outcomes_of(requests: Judged) -> tuple[Texts, Texts]:
    """Judge every request; returns outcomes and reasons."""
    status, error, answered = requests.http_status, requests.is_error, requests.is_answered
    # A caller's own span is in error though the service answered 200, or nothing at all.
    left = requests.may_leave & (np.nan_to_num(status, nan=200) < 400)
    left &= error | (np.isnan(status) & ~answered)
    rules = [
        (status == 504, "bad", "timeout"),
        (status == 503, "bad", "capacity"),
        (status >= 500, "bad", "upstream_error"),
        (status == 408, "bad", "capacity"),
        (status == 429, "excluded", "rate_limited"),
        (status == 499, "excluded", "client_gone"),
        (status >= 400, "excluded", "client_error"),
        (left & answered, "good", "client_stopped"),
        (left, "excluded", "client_gone"),
        (error, "bad", "error"),
        (np.ones(len(status), bool), "good", "ok"),
    ]
    rule = np.argmax([applies for applies, _, _ in rules], axis=0)  # the first that applies
    outcome = np.array([outcome for _, outcome, _ in rules], dtype=object)[rule]
    reason = np.array([reason for _, _, reason in rules], dtype=object)[rule]
    for word, default in _DEFAULT_REASON.items():
        said = requests.said_outcome == word
        outcome[said] = word
        reason[said] = np.where(requests.said_reason == "", default, requests.said_reason)[said]
    return outcome, reason
