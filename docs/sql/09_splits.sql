-- Where does a bundle come from?
--
-- Every split: the half, where the range was cut, why, and who owns the half now. A half's epoch is above that of its
-- parent, so an old owner of the parent can never write to it.

WITH asked AS (
  SELECT bundle, max(seq) AS seq FROM journal WHERE kind = 'ownership' AND state = 'splitting' GROUP BY bundle
)
SELECT s.at_time, s.parent, s.child, s.first_epoch, s.split_by, j.reason,
       coalesce(s.decision_id, s.command_id) AS cause,
       '0x' || lpad(lower(hex(j.boundary)), 8, '0') AS boundary, o.by_broker AS owner_now, o.state AS state_now,
       o.epoch AS epoch_now
FROM split_children s
LEFT JOIN asked a ON a.bundle = s.parent
LEFT JOIN journal j ON j.seq = a.seq
LEFT JOIN ownership o ON o.bundle = s.child
ORDER BY s.seq, s.child
