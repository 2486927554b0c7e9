-- What would another strategy have done?
--
-- Moves and splits of the strategy in charge and of its challengers, which decide the same rounds in shadow
-- (`rounds.challengers`). `moves_in_common` are moves of bundles that the strategy in charge wanted to move in the
-- same round. Challengers see the moves of the strategy in charge, not their own, so their sums overstate: a backtest
-- tells more.

WITH moves AS (
  SELECT attempt_id, round_id, bundle, challenger FROM all_decisions WHERE kind IN ('transfer', 'unload')
),
in_common AS (
  SELECT m.attempt_id, count(*) AS moves
  FROM moves m
  JOIN moves o ON o.round_id = m.round_id AND o.bundle = m.bundle AND NOT o.challenger
  GROUP BY m.attempt_id
)
SELECT r.strategy, CASE WHEN r.challenger THEN 'challenger' ELSE 'in charge' END AS role, count(*) AS rounds,
       sum(CASE WHEN r.moves + r.splits > 0 THEN 1 ELSE 0 END) AS rounds_that_acted, sum(r.moves) AS moves,
       sum(r.splits) AS splits, coalesce(sum(c.moves), 0) AS moves_in_common, min(r.at_time) AS first_time,
       max(r.at_time) AS last_time
FROM all_rounds r
LEFT JOIN in_common c ON c.attempt_id = r.attempt_id
GROUP BY r.strategy, r.challenger
ORDER BY r.challenger, r.strategy
