"""The ledger's SQL. `$by` stands for the columns a ledger is grouped by.

Times are nanoseconds since the epoch, hours are whole hours since the epoch, and every sum is of
integers, so no result depends on the order of rows.
"""

# A request ran on its engine for the last `engine_s` seconds before it ended. Where children ran
# side by side (n > 1) engine time exceeds the request's own, which then bounds the interval.
RUNS = """
SELECT *, least(ran_to, {to:Int64}) AS upto, greatest(ran_from, {from:Int64}) AS since
FROM (
  SELECT *, toUnixTimestamp64Nano(end) AS ran_to,
    greatest(toUnixTimestamp64Nano(start), ran_to - engine_ns) AS ran_from
  FROM (
    SELECT *, toInt64(round(engine_s * 1e9)) AS engine_ns FROM facts FINAL
    WHERE replica != '' AND engine_s > 0
      AND start < fromUnixTimestamp64Nano({to:Int64}, 'UTC')
      AND start >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')
  )
)
WHERE since < upto
"""

# One row per run and hour it touched; `engine_part` is the engine time that falls in the hour.
RUN_HOURS = f"""
SELECT *,
  least(upto, (hour + 1) * {{hour:Int64}}) - greatest(since, hour * {{hour:Int64}}) AS inside,
  if(engine_ns = ran_to - ran_from, inside,
     toInt64(round(engine_ns * (inside / (ran_to - ran_from))))) AS engine_part
FROM (
  SELECT *, arrayJoin(range(toUInt64(intDiv(since, {{hour:Int64}})),
                            toUInt64(intDiv(upto - 1, {{hour:Int64}}) + 1)))::Int64 AS hour
  FROM ({RUNS})
)
"""

OCCUPANCY = f"""
SELECT replica, hour,
  toInt64(intervalLengthSum(greatest(since, hour * {{hour:Int64}}),
                            least(upto, (hour + 1) * {{hour:Int64}}))) AS busy_ns,
  toInt64(sum(engine_part)) AS engine_ns
FROM ({RUN_HOURS}) GROUP BY replica, hour
"""

USE = f"""
SELECT replica, hour, toInt64(sum(engine_part)) AS engine_ns$by
FROM ({RUN_HOURS}) GROUP BY replica, hour$by
"""

ACTIVITY = f"""
SELECT replica, hour, max(model) AS model,
  min(greatest(since, hour * {{hour:Int64}})) AS began,
  max(least(upto, (hour + 1) * {{hour:Int64}})) AS ended
FROM ({RUN_HOURS}) GROUP BY replica, hour
"""

ALIVE = """
SELECT instance AS replica, hour, max(model) AS model, gpu_type,
  toInt64(greatest(ifNull(gpu_count, 1), 1)) AS gpus,
  toInt64(intervalLengthSum(greatest(since, hour * {hour:Int64}),
                            least(upto, (hour + 1) * {hour:Int64}))) AS ns
FROM (
  SELECT *, arrayJoin(range(toUInt64(intDiv(since, {hour:Int64})),
                            toUInt64(intDiv(upto - 1, {hour:Int64}) + 1)))::Int64 AS hour
  FROM (
    SELECT instance, model, gpu_type, gpu_count,
      greatest(toUnixTimestamp64Nano(start), {from:Int64}) AS since,
      least(toUnixTimestamp64Nano(end), {to:Int64}) AS upto
    FROM alive WHERE role = 'engine' AND since < upto
      AND start < fromUnixTimestamp64Nano({to:Int64}, 'UTC')
      AND end > fromUnixTimestamp64Nano({from:Int64}, 'UTC')
  )
)
GROUP BY instance, hour, gpu_type, gpus
"""

HARDWARE = """
SELECT instance AS replica, toUnixTimestamp64Nano(min(alive.start)) AS since, gpu_type,
  toInt64(greatest(ifNull(gpu_count, 1), 1)) AS gpus
FROM alive WHERE role = 'engine' GROUP BY replica, gpu_type, gpus ORDER BY replica, since, gpu_type
"""

TRAFFIC = """
SELECT model, replica, toInt64(intDiv(toUnixTimestamp64Nano(start), {hour:Int64})) AS hour,
  if(is_run, toInt64(intDiv(ran_from, {hour:Int64})), NULL) AS first_hour,
  if(is_run, toInt64(intDiv(ran_to - 1, {hour:Int64})), NULL) AS last_hour,
  toInt64(count()) AS requests,
  toInt64(countIf(outcome = 'good')) AS good, toInt64(countIf(outcome = 'bad')) AS bad,
  toInt64(countIf(outcome = 'excluded')) AS excluded,
  toInt64(countIf(is_metered)) AS metered,
  toInt64(sumIf(assumeNotNull(prompt_tokens), is_metered)) AS prompt,
  toInt64(sumIf(ifNull(cached_tokens, 0), is_metered)) AS cached,
  toInt64(sumIf(assumeNotNull(completion_tokens), is_metered)) AS completion$by
FROM (
  SELECT *, toUnixTimestamp64Nano(end) AS ran_to,
    greatest(toUnixTimestamp64Nano(start),
             ran_to - toInt64(round(ifNull(engine_s, 0) * 1e9))) AS ran_from,
    replica != '' AND ifNull(engine_s, 0) > 0 AND ran_from < ran_to AS is_run,
    isNotNull(prompt_tokens) AND isNotNull(completion_tokens) AS is_metered
  FROM facts FINAL
  WHERE start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC')
    AND start < fromUnixTimestamp64Nano({to:Int64}, 'UTC')
)
GROUP BY model, replica, hour, first_hour, last_hour$by
"""
