-- What causes moves?
--
-- Changes of owner by who wanted them and why. `round`: a strategy. `control step`: the controller between rounds,
-- as for bundles of drained brokers, halves of splits, orphans. `command`: an operator about this bundle. `end of a
-- broker`: its lease ended. First assignments are not moves and are left out.

SELECT CASE WHEN command_id IS NOT NULL THEN 'command'
            WHEN decision_id LIKE 'step-%' THEN 'control step'
            WHEN decision_id IS NOT NULL THEN 'round'
            ELSE 'end of a broker' END AS wanted_by,
       reason, count(*) AS moves, count(DISTINCT bundle) AS bundles, min(ended) AS first_time, max(ended) AS last_time
FROM handovers
WHERE broker_before <> broker_after
GROUP BY 1, 2
ORDER BY moves DESC, wanted_by, reason
