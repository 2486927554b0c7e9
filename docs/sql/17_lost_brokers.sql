-- Which brokers went away, and how long was what they owned without an owner?
--
-- A row for each session that ended. `lease`: nothing was heard of the broker any more, add the lease to the times.
-- `goodbye`: it left. `superseded`: its process was started again. `bundles` are those that lost their owner with
-- it, `longest_ms` is until the last of them had the next one, `waiting` are without one still. `back_at`: when it
-- registered again.

WITH sessions AS (
  SELECT *, min(CASE WHEN kind = 'registered' THEN at_time END)
              OVER (PARTITION BY broker ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS back_at
  FROM journal
  WHERE kind IN ('registered', 'session_ended')
),
entries AS (
  SELECT bundle, instance, batch, at_ms, state, reason,
         lag(coalesce(by_broker, to_broker)) OVER (PARTITION BY bundle ORDER BY seq) AS broker_before,
         min(CASE WHEN state = 'owned' THEN at_ms END)
           OVER (PARTITION BY bundle ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS owned_again_ms
  FROM journal
  WHERE kind = 'ownership'
),
orphans AS (
  SELECT e.bundle, e.instance, e.batch, coalesce(e.broker_before, s.split_by) AS broker,
         e.owned_again_ms - e.at_ms AS without_owner_ms
  FROM entries e
  LEFT JOIN split_children s ON s.child = e.bundle
  WHERE e.state = 'free' AND e.reason = 'owner_ended'
)
SELECT e.at_time, e.broker, e.reason, count(o.bundle) AS bundles,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY o.without_owner_ms) AS p50_ms, max(o.without_owner_ms) AS longest_ms,
       sum(CASE WHEN o.bundle IS NOT NULL AND o.without_owner_ms IS NULL THEN 1 ELSE 0 END) AS waiting, e.back_at
FROM sessions e
LEFT JOIN orphans o ON o.broker = e.broker AND o.instance = e.instance AND o.batch = e.batch
WHERE e.kind = 'session_ended'
GROUP BY e.seq, e.at_time, e.broker, e.reason, e.back_at
ORDER BY e.seq
