-- Who owns what, and what does nobody serve?
--
-- A row for each broker and state of its bundles. `nobody` with state `free` is normal for bundles whose topics were
-- never looked up (epoch 0). With a higher epoch they are between two owners, which should take seconds.

SELECT coalesce(by_broker, 'nobody') AS broker, state, count(*) AS bundles, min(epoch) AS least_epoch,
       min(bundle) AS for_example
FROM ownership
WHERE state <> 'retired'
GROUP BY by_broker, state
ORDER BY broker, state
