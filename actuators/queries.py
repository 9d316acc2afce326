"""The evidence queries, ClickHouse SQL on the request facts.

Loads, latencies and outcomes take what ended in the window: a request is only seen when it has
ended, so the youngest starts are always incomplete, and most of all during the very queueing that
matters here. The usual load of a tenant is taken by start, from before the window.
"""

from __future__ import annotations

_WORK = (
    "(greatest(coalesce(prompt_tokens, 0) - coalesce(cached_tokens, 0), 0)"
    " + {weight:Float64} * coalesce(completion_tokens, 0))"
)
_SHED = "outcome_reason = 'shed'"
# Turned away by us or for want of room, or given up while waiting: offered work all the same.
_REFUSED = (
    "(outcome_reason IN ('shed', 'capacity')"
    " OR (outcome_reason IN ('timeout', 'client_gone') AND completion_tokens IS NULL))"
)
_SCOPE = """
  AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
  AND ({service:String} = ''
       OR arrayExists(s -> startsWith(s, concat('gateway:', {service:String}, '/')), sources))"""
_STARTED = "start > {from:DateTime64(9,'UTC')} AND start <= {to:DateTime64(9,'UTC')}" + _SCOPE
# Facts are sorted by start: without a bound on it, every query would read the whole table.
_ENDED = (
    "end > {from:DateTime64(9,'UTC')} AND end <= {to:DateTime64(9,'UTC')}"
    " AND start > {from:DateTime64(9,'UTC')} - INTERVAL 1 HOUR"
    " AND start <= {to:DateTime64(9,'UTC')}" + _SCOPE
)

LOADS = f"""
SELECT tenant, priority,
  count() AS requests,
  countIf({_REFUSED}) AS refused,
  sumIf(coalesce(prompt_tokens, 0), NOT {_REFUSED}) AS prompt,
  sumIf(coalesce(completion_tokens, 0), NOT {_REFUSED}) AS completion,
  sumIf({_WORK}, NOT {_REFUSED}) AS work,
  countIf({_REFUSED} AND prompt_tokens IS NOT NULL) AS refused_sized,
  sumIf({_WORK}, {_REFUSED} AND prompt_tokens IS NOT NULL) AS refused_work
FROM facts FINAL
WHERE {_ENDED}
GROUP BY tenant, priority
ORDER BY tenant, priority
"""

BASELINE = f"""
SELECT tenant,
  sum({_WORK}) AS work,
  sumIf({_WORK}, start <= {{middle:DateTime64(9,'UTC')}}) AS older_work
FROM facts FINAL
WHERE {_STARTED}
GROUP BY tenant
ORDER BY tenant
"""

LATENCIES = f"""
SELECT
  count() AS requests,
  quantileExact(0.95)(queue_ms) AS queue_p95_ms,
  quantileExact(0.5)(ttft_ms) AS ttft_p50_ms,
  quantileExact(0.95)(ttft_ms) AS ttft_p95_ms,
  countIf(outcome = 'good') AS good,
  countIf(outcome = 'bad' AND NOT {_SHED}) AS bad
FROM facts FINAL
WHERE {_ENDED}
"""

OUTCOMES = f"""
SELECT toString(outcome) AS label, outcome_reason AS reason, count() AS requests
FROM facts FINAL
WHERE {_ENDED}
GROUP BY outcome, outcome_reason
ORDER BY outcome, outcome_reason
"""

REPLICAS = f"""
SELECT replica,
  count() AS requests,
  countIf(outcome = 'bad' AND NOT {_SHED}) AS errors,
  sum({_WORK}) AS work,
  quantileExact(0.95)(ttft_ms) AS ttft_p95_ms,
  quantileExact(0.5)(tpot_ms) AS tpot_p50_ms,
  quantileExact(0.95)(queue_ms) AS queue_p95_ms
FROM facts FINAL
WHERE {_ENDED} AND replica != ''
GROUP BY replica
ORDER BY replica
"""

# What replicas got done in each slot, and how long the requests that ended in it had queued.
SLOTS = f"""
SELECT
  intDiv(dateDiff('millisecond', {{from:DateTime64(9,'UTC')}}, end), {{slot_ms:Int64}}) AS slot,
  model,
  sum({_WORK}) AS work,
  uniqExact(replica) AS replicas,
  quantileExact(0.5)(queue_ms) AS queue_p50_ms
FROM facts FINAL
WHERE {_ENDED} AND replica != ''
GROUP BY slot, model
ORDER BY slot, model
"""

HEARTBEATS = """
SELECT instance, any(model) AS model, max(end) AS last
FROM alive
WHERE role = 'engine'
  AND end > {from:DateTime64(9,'UTC')} AND end <= {to:DateTime64(9,'UTC')}
  AND start > {from:DateTime64(9,'UTC')} - INTERVAL 1 HOUR
GROUP BY instance
ORDER BY instance
"""
