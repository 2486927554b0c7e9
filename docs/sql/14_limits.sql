-- Which resource runs out first?
--
-- For each living broker: the resource that is busiest now, and how busy the busiest one was over all that is kept.
-- `headroom_pct` is what was left 95 % of the time. Without the weights that rounds give resources.

WITH newest AS (
  SELECT *, row_number() OVER (PARTITION BY broker ORDER BY as_of_ms DESC) AS age_rank
  FROM broker_load
),
kept AS (
  SELECT broker, count(*) AS averages, max(utilisation) AS highest,
         percentile_cont(0.95) WITHIN GROUP (ORDER BY utilisation) AS p95
  FROM broker_load
  GROUP BY broker
)
SELECT n.broker,
       CASE WHEN n.utilisation = n.cpu_utilisation THEN 'cpu'
            WHEN n.utilisation = n.memory_utilisation THEN 'memory'
            WHEN n.utilisation = n.direct_memory_utilisation THEN 'direct_memory'
            WHEN n.utilisation = n.bandwidth_in_utilisation THEN 'bandwidth_in'
            WHEN n.utilisation = n.bandwidth_out_utilisation THEN 'bandwidth_out'
            WHEN n.utilisation = n.disk_io_utilisation THEN 'disk_io' END AS busiest_resource,
       round(100 * n.utilisation, 1) AS now_pct, round(100 * k.p95, 1) AS p95_pct,
       round(100 * k.highest, 1) AS highest_pct, round(100 * (1 - k.p95), 1) AS headroom_pct, k.averages, n.as_of
FROM newest n
JOIN kept k ON k.broker = n.broker
JOIN brokers b ON b.broker = n.broker AND b.state = 'alive'
WHERE n.age_rank = 1
ORDER BY headroom_pct, n.broker
