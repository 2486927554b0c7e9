-- Why was nothing moved?
--
-- What rounds decided against, by broker. A `skip` says why the broker gave nothing away. Any other kind was decided,
-- and `outcome` says why it was not carried out. Of a plan that waited, what an approval left out says why, and what it
-- had carried out is not here. The hundreds digit of a reason is its band: 1xx normal, 2xx not now, 3xx set by an
-- operator, 4xx impossible now. docs/reasons.md has all codes, and what to do about each.

SELECT d.source AS broker, d.kind, d.reason, coalesce(a.outcome, d.outcome, 'decided against') AS outcome,
       count(*) AS times, max(d.at_time) AS last_time, max_by(d.evidence_json, d.decision_id) AS last_evidence
FROM decisions d
LEFT JOIN approved_moves a ON a.planned_as = d.decision_id
WHERE NOT coalesce(a.executed, d.executed)
GROUP BY d.source, d.kind, d.reason, coalesce(a.outcome, d.outcome, 'decided against')
ORDER BY broker, times DESC, reason, kind, outcome
