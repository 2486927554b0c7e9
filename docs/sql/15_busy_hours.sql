-- When is the load highest?
--
-- By weekday (1 is Monday) and hour, both UTC: what 95 % of the averages stayed below, for all brokers together,
-- for the busiest one, and in messages. Plan work on brokers for rows at the bottom. Size the cluster by those at
-- the top.

WITH moments AS (
  SELECT as_of_ms, weekday, hour, avg(utilisation) AS mean, max(utilisation) AS busiest,
         sum(msg_rate_in + msg_rate_out) AS messages
  FROM broker_load
  GROUP BY as_of_ms, weekday, hour
)
SELECT weekday, hour, count(*) AS averages,
       round(100 * percentile_cont(0.95) WITHIN GROUP (ORDER BY mean), 1) AS mean_p95_pct,
       round(100 * percentile_cont(0.95) WITHIN GROUP (ORDER BY busiest), 1) AS busiest_p95_pct,
       round(percentile_cont(0.95) WITHIN GROUP (ORDER BY messages)) AS messages_p95_per_s
FROM moments
GROUP BY weekday, hour
ORDER BY mean_p95_pct DESC, weekday, hour
