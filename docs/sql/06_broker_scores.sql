-- How did the brokers' scores develop?
--
-- A row for each round and broker. `score_pct` is what was measured. `level_pct` is what the strategy judged the broker
-- against, by its own figures: `steady` shares out by capacity what it expects to last, so its level is not the mean of
-- the measured scores, which question 11 has. `hits` counts the rounds running in which the broker was above what the
-- strategy allows, `is_source` says whether load was to be moved off it, `reason` why or why not. A broker that is not
-- eligible was neither source nor target.

SELECT at_time, broker, round(100 * score, 1) AS score_pct, round(100 * mean, 1) AS level_pct, hits, is_source,
       eligible, reason, round(100 * cpu_utilisation, 1) AS cpu_pct, round(100 * memory_utilisation, 1) AS memory_pct,
       round(100 * greatest(bandwidth_in_utilisation, bandwidth_out_utilisation), 1) AS bandwidth_pct
FROM broker_scores
ORDER BY at_ms, broker
