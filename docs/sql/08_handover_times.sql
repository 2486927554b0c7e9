-- How long do handovers and failovers take?
--
-- From the first entry that ends an ownership to the entry with the next owner, by the controller's clock and
-- in steps of its batches. Clients notice less: one Kafka hop of it. A failover counts from the end of the
-- lease. `came_back` counts handovers that ended where they began: rejected, timed out, or the target was gone.

SELECT how, count(*) AS times, sum(CASE WHEN broker_before = broker_after THEN 1 ELSE 0 END) AS came_back,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY took_ms) AS p50_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY took_ms) AS p99_ms, max(took_ms) AS longest_ms
FROM handovers
GROUP BY how
ORDER BY times DESC, how
