-- Why was nothing moved?
--
-- What rounds decided against, by broker. A `skip` says why the broker gave nothing away. Any other kind was decided,
-- and `outcome` says why it was not carried out. The hundreds digit of a reason is its band: 1xx normal, 2xx not now,
-- 3xx set by an operator, 4xx impossible now. docs/reasons.md has all codes, and what to do about each.

SELECT source AS broker, kind, reason, coalesce(outcome, 'decided against') AS outcome, count(*) AS times,
       max(at_time) AS last_time, max_by(evidence_json, decision_id) AS last_evidence
FROM decisions
WHERE NOT executed
GROUP BY source, kind, reason, outcome
ORDER BY broker, times DESC, reason, kind, outcome
