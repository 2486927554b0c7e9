-- How fast does the load grow?
--
-- A row for each day: means and the 95th percentile of the messages of all brokers, beside the day before and the
-- same weekday a week earlier. The first and the last day may be incomplete (`averages`). A week is compared only
-- where `retention.loads_days` is above its default, 7.

WITH moments AS (
  SELECT as_of_ms, floor(as_of_ms / 86400000) AS day_number, day, avg(utilisation) AS mean,
         sum(msg_rate_in + msg_rate_out) AS messages
  FROM broker_load
  GROUP BY as_of_ms, day
),
days AS (
  SELECT day_number, day, count(*) AS averages, avg(mean) AS mean, avg(messages) AS messages,
         percentile_cont(0.95) WITHIN GROUP (ORDER BY messages) AS messages_p95
  FROM moments
  GROUP BY day_number, day
)
SELECT d.day, d.averages, round(100 * d.mean, 1) AS mean_pct, round(d.messages) AS messages_per_s,
       round(d.messages_p95) AS messages_p95_per_s,
       round(100 * (d.messages / nullif(y.messages, 0) - 1), 1) AS than_yesterday_pct,
       round(100 * (d.messages / nullif(w.messages, 0) - 1), 1) AS than_a_week_ago_pct
FROM days d
LEFT JOIN days y ON y.day_number = d.day_number - 1
LEFT JOIN days w ON w.day_number = d.day_number - 7
ORDER BY d.day_number
