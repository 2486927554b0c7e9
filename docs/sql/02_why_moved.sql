-- Why did this bundle move?
--
-- The whole history of the bundle `:bundle`, each step with its cause: a decision with what the strategy judged the
-- source by before and as predicted, or a command with who sent it and why. For a move of a plan that waited,
-- `approved_by` is who approved the plan, and `why` is that person's reason. A row without a reason goes on with the
-- step above it.

SELECT j.at_time, j.seq, j.state, j.epoch, j.by_broker, j.to_broker, j.reason, d.decision_id, d.strategy,
       coalesce(a.source_before, d.source_before) AS source_before,
       coalesce(a.source_after, d.source_after) AS source_predicted, c.who AS commanded_by, a.approved_by,
       coalesce(c.why, a.why) AS why
FROM journal j
LEFT JOIN all_decisions d ON d.decision_id = j.decision_id
LEFT JOIN approved_moves a ON a.decision_id = j.decision_id
LEFT JOIN commands c ON c.command_id = j.command_id AND c.accepted
WHERE j.kind = 'ownership' AND j.bundle = :bundle
ORDER BY j.seq
