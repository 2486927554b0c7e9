-- Which bundles are busiest now, and which are too big for their broker?
--
-- The newest short average of each bundle. `of_broker_pct` is its part of all bytes of its broker: beyond half, no
-- move of another bundle relieves that broker, and the bundle is worth a split. `steadiness` is the throughput of the
-- last minute by the average over hours: near 1 the load is steady, far above it is a burst.

WITH loads AS (
  SELECT *, throughput_in + throughput_out AS bytes, msg_rate_in + msg_rate_out AS messages FROM newest_bundle_load
),
brokers_total AS (
  SELECT owner, sum(bytes) AS bytes FROM loads GROUP BY owner
)
SELECT l.bundle, l.owner AS broker, l.state, round(l.messages) AS messages_per_s, round(l.bytes) AS bytes_per_s,
       round(100 * l.bytes / nullif(t.bytes, 0), 1) AS of_broker_pct, l.topics, l.sessions, l.backlog_bytes,
       round(l.bytes / nullif(l.throughput_long, 0), 2) AS steadiness, l.as_of
FROM loads l
LEFT JOIN brokers_total t ON t.owner = l.owner
ORDER BY bytes_per_s DESC, l.bundle
LIMIT 20
