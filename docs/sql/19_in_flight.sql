-- What is on its way, and for how long?
--
-- Bundles being assigned, handed over or split, and bundles between two owners, oldest first. `for_ms` counts up to
-- the newest entry of the journal. Seconds are normal. What stands for minutes has a broker that does not answer.

WITH newest AS (
  SELECT max(at_ms) AS at_ms FROM journal
)
SELECT o.bundle, o.state, o.by_broker AS source, o.to_broker AS target, o.epoch, o.cause, c.who AS commanded_by,
       j.at_time AS since, n.at_ms - j.at_ms AS for_ms
FROM ownership o
JOIN journal j ON j.seq = o.entry_seq
CROSS JOIN newest n
LEFT JOIN commands c ON c.command_id = o.cause
WHERE o.state IN ('assigning', 'transferring', 'releasing', 'splitting') OR (o.state = 'free' AND o.epoch > 0)
ORDER BY for_ms DESC, o.bundle
