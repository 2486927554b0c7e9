-- What causes moves?
--
-- Changes of owner by who wanted them and why. `round`: a strategy. `approved plan`: a strategy, once an operator had
-- approved. `control step`: the controller between rounds, as for bundles of drained brokers, halves of splits,
-- orphans. `command`: an operator about this bundle. `end of a broker`: its lease ended. First assignments are not
-- moves and are left out.

SELECT CASE WHEN h.command_id IS NOT NULL THEN 'command'
            WHEN a.decision_id IS NOT NULL THEN 'approved plan'
            WHEN h.decision_id LIKE 'step-%' THEN 'control step'
            WHEN h.decision_id IS NOT NULL THEN 'round'
            ELSE 'end of a broker' END AS wanted_by,
       h.reason, count(*) AS moves, count(DISTINCT h.bundle) AS bundles, min(h.ended) AS first_time,
       max(h.ended) AS last_time
FROM handovers h
LEFT JOIN approved_moves a ON a.decision_id = h.decision_id
WHERE h.broker_before <> h.broker_after
GROUP BY 1, 2
ORDER BY moves DESC, wanted_by, reason
