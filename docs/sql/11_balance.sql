-- How even was the load, round by round?
--
-- By the measured scores of eligible brokers. What the strategy judged them against is the level of question 06.
-- `busiest_to_mean` is 1 where all brokers are equally loaded. `carried_out` counts the round's decisions that became
-- moves or splits: 0 beside decided ones means mode shadow or paused, or that the state had moved on.

WITH carried_out AS (
  SELECT attempt_id, count(*) AS decisions FROM decisions WHERE executed GROUP BY attempt_id
)
SELECT r.at_time, r.mode, r.strategy, round(100 * r.mean_score, 1) AS mean_pct,
       round(100 * r.max_score, 1) AS busiest_pct,
       round(r.max_score / nullif(r.mean_score, 0), 2) AS busiest_to_mean, r.moves, r.splits,
       coalesce(c.decisions, 0) AS carried_out
FROM rounds r
LEFT JOIN carried_out c ON c.attempt_id = r.attempt_id
ORDER BY r.at_ms
