-- Why did this bundle move?
--
-- The whole history of the bundle `:bundle`, each step with its cause: a decision with the source's score before and
-- as predicted, or a command with who sent it and why. A row without a reason goes on with the step above it.

SELECT j.at_time, j.seq, j.state, j.epoch, j.by_broker, j.to_broker, j.reason, d.decision_id, d.strategy,
       d.source_before, d.source_after AS source_predicted, c.who AS commanded_by, c.why
FROM journal j
LEFT JOIN all_decisions d ON d.decision_id = j.decision_id
LEFT JOIN commands c ON c.command_id = j.command_id AND c.accepted
WHERE j.kind = 'ownership' AND j.bundle = :bundle
ORDER BY j.seq
