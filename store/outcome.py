"""How a request ended: good, bad or excluded, with a reason.

Explicit words of our gateway win. Otherwise: what the service got wrong is bad; what the caller got
wrong, or a tenant over its own quota, is excluded; a caller who left a healthy stream is good.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

ERROR = 2  # OpenTelemetry's status code

# An explicit outcome without a reason gets this one.
_DEFAULT_REASON = {"good": "ok", "bad": "error", "excluded": "excluded"}


def outcomes_of(requests: pd.DataFrame) -> pd.DataFrame:
    """Judge every request.

    Needs: said_outcome, said_reason ('' if nobody said), http_status (NaN: none), is_error (the
    anchor's span status), anchor_layer, has_engine (an engine finished it), has_answer (a first
    token or a response head was seen). Returns outcome and outcome_reason, same index.
    """
    said = requests["said_outcome"].isin(list(_DEFAULT_REASON))
    status = requests["http_status"].to_numpy("float64")
    error = requests["is_error"].to_numpy(bool)
    answered = (requests["has_engine"] | requests["has_answer"]).to_numpy(bool)
    outermost = requests["anchor_layer"]
    # A caller's own span is in error though the service answered 200, or nothing at all.
    left = np.where(
        outermost.isin(["client", "router"]),
        (np.nan_to_num(status, nan=200) < 400) & (error | (np.isnan(status) & ~answered)),
        False,
    )
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
    ]
    conditions = [rule for rule, _, _ in rules]
    outcome = np.select(conditions, [o for _, o, _ in rules], "good")
    reason = np.select(conditions, [r for _, _, r in rules], "ok")
    spoken = requests["said_reason"].where(
        requests["said_reason"] != "", requests["said_outcome"].map(_DEFAULT_REASON)
    )
    return pd.DataFrame(
        {
            "outcome": np.where(said, requests["said_outcome"], outcome),
            "outcome_reason": np.where(said, spoken, reason),
        },
        index=requests.index,
    )
