-- Which namespaces use the cluster?
--
-- The newest averages by namespace, with its part of all bytes, and over how many brokers it is spread. The sum
-- leaves out what agents report as their tail: everything not among a broker's busiest bundles.

WITH namespaces AS (
  SELECT namespace, count(*) AS bundles, count(DISTINCT owner) AS brokers, sum(msg_rate_in + msg_rate_out) AS messages,
         sum(throughput_in + throughput_out) AS bytes, sum(topics) AS topics, sum(sessions) AS sessions,
         sum(backlog_bytes) AS backlog_bytes
  FROM newest_bundle_load
  GROUP BY namespace
),
total AS (
  SELECT sum(bytes) AS bytes FROM namespaces
)
SELECT n.namespace, n.bundles, n.brokers, round(n.messages) AS messages_per_s, round(n.bytes) AS bytes_per_s,
       round(100 * n.bytes / nullif(t.bytes, 0), 1) AS share_pct, round(n.topics) AS topics,
       round(n.sessions) AS sessions, round(n.backlog_bytes) AS backlog_bytes
FROM namespaces n
CROSS JOIN total t
ORDER BY bytes_per_s DESC, n.namespace
