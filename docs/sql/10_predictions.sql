-- Did predictions come true?
--
-- For each round and source, all by measured scores: `before_pct` is that of the round, `predicted_pct` adds the change
-- that the strategy predicted of all its moves off the source, `realised_pct` is that of the first round at least a
-- minute later, once no average holds load from before the move. Changes are compared, because a strategy may judge
-- brokers by something else than the measured average, which lags: `steady` goes by what it expects to last. A large
-- `missed_by_points` means that bundles cost more or less than estimated, or that other load changed, as it does by
-- further moves within the minute. The moves of a plan that waited are those that were carried out once `approved_by`
-- had approved it, at `at_time`.

WITH moved AS (
  SELECT round_id, at_ms, at_time, source, decision_id, source_before, source_after, NULL AS approved_by
  FROM decisions
  WHERE kind IN ('transfer', 'unload') AND executed
  UNION ALL
  SELECT round_id, at_ms, at_time, source, planned_as AS decision_id, source_before, source_after, approved_by
  FROM approved_moves
  WHERE kind IN ('transfer', 'unload') AND executed
),
predicted AS (
  SELECT round_id, source, max(at_ms) AS at_ms, max(at_time) AS at_time, max(approved_by) AS approved_by,
         count(*) AS moves, max_by(source_after, decision_id) - min_by(source_before, decision_id) AS change
  FROM moved
  GROUP BY round_id, source
),
realised AS (
  SELECT p.round_id, p.source, min_by(s.score, s.at_ms) AS score
  FROM predicted p
  JOIN broker_scores s ON s.broker = p.source AND s.at_ms >= p.at_ms + 60000 AND s.score IS NOT NULL
  GROUP BY p.round_id, p.source
)
SELECT p.at_time, p.source, p.moves, p.approved_by, round(100 * s.score, 1) AS before_pct,
       round(100 * (s.score + p.change), 1) AS predicted_pct, round(100 * r.score, 1) AS realised_pct,
       round(100 * (r.score - s.score - p.change), 1) AS missed_by_points
FROM predicted p
JOIN broker_scores s ON s.round_id = p.round_id AND s.broker = p.source
JOIN realised r ON r.round_id = p.round_id AND r.source = p.source
ORDER BY p.at_ms, p.source
