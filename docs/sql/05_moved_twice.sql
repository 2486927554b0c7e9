-- Which bundles moved twice within half an hour?
--
-- Moves between brokers, whatever caused them. Rounds leave a bundle in peace for the grace period after a move of
-- theirs. An operator, a split or the end of a broker does not wait. Many rows mean restless load or hands at work.

WITH moves AS (
  SELECT bundle, seq, ended, broker_before, broker_after,
         ended_ms - lag(ended_ms) OVER (PARTITION BY bundle ORDER BY seq) AS since_last_move_ms
  FROM handovers
  WHERE broker_before <> broker_after
)
SELECT bundle, count(*) AS quick_moves, min(since_last_move_ms) AS shortest_ms,
       max_by(broker_before || ' -> ' || broker_after, seq) AS last_move, max(ended) AS last_time
FROM moves
WHERE since_last_move_ms < 30 * 60 * 1000
GROUP BY bundle
ORDER BY quick_moves DESC, bundle
