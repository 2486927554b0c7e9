-- Who asked for what, and what came of it?
--
-- Every command with its reason. A rejected one has changed nothing, and `refusal` says why. `bundles` are those
-- whose entries name the command, `took_ms` is until the last of these entries. A drain's moves name decisions of the
-- control step instead: see "What causes moves?".

SELECT c.at_time, c.who, c.command, c.args, c.why, c.accepted, c.refusal, count(DISTINCT j.bundle) AS bundles,
       max(j.at_ms) - c.at_ms AS took_ms
FROM commands c
LEFT JOIN journal j ON j.command_id = c.command_id AND j.bundle IS NOT NULL
GROUP BY c.seq, c.at_time, c.at_ms, c.who, c.command, c.args, c.why, c.accepted, c.refusal
ORDER BY c.seq
