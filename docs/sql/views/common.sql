-- Views that every engine takes as they are: what counts, the newest loads, and changes of owner. The last of three
-- scripts.

-- Evidence is written before the journal entry that makes it count, so what no entry names was interrupted.
CREATE OR REPLACE TEMPORARY VIEW all_rounds AS
SELECT * FROM written_rounds WHERE attempt_id IN (SELECT attempt_id FROM journal WHERE kind = 'round');

-- Rounds of the strategy in charge, without those of challengers.
CREATE OR REPLACE TEMPORARY VIEW rounds AS SELECT * FROM all_rounds WHERE NOT challenger;

-- Decisions of rounds, of challengers, and of the control step, whose round_id begins with step-.
CREATE OR REPLACE TEMPORARY VIEW all_decisions AS
SELECT * FROM written_decisions
WHERE attempt_id IN (SELECT attempt_id FROM journal WHERE attempt_id IS NOT NULL);

-- Decisions of the strategy in charge.
CREATE OR REPLACE TEMPORARY VIEW decisions AS
SELECT * FROM all_decisions WHERE round_id NOT LIKE 'step-%' AND NOT challenger;

-- Moves of plans that waited until an operator approved them: the decision of the control step that carried a move out,
-- or did not, beside that of the round, which has the prediction and still says that it waits.
CREATE OR REPLACE TEMPORARY VIEW approved_moves AS
SELECT s.decision_id, s.at_ms, s.at_time, s.executed, s.outcome, d.decision_id AS planned_as, d.round_id, d.kind,
       d.bundle, d.source, d.target, d.source_before, d.source_after, d.target_before, d.target_after,
       p.who AS approved_by, p.why, p.at_time AS approved_at
FROM all_decisions s
JOIN decisions d ON d.decision_id = s.carries_out
JOIN plans p ON p.round_id = d.round_id AND p.became = 'approved';

CREATE OR REPLACE TEMPORARY VIEW broker_scores AS
SELECT * FROM written_broker_scores WHERE attempt_id IN (SELECT attempt_id FROM rounds);

-- Averages are written again when reports come late: the row with the most reports counts. Of a broker that was started
-- again within a pane its newest process. A moment has one row for each broker, and for each bundle and broker.
CREATE OR REPLACE TEMPORARY VIEW broker_load AS
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY as_of_ms, broker
                               ORDER BY incarnation DESC, reports DESC, batch_id DESC, writer) AS written_rank
  FROM written_broker_load
) ranked
WHERE written_rank = 1;

CREATE OR REPLACE TEMPORARY VIEW bundle_load AS
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY as_of_ms, bundle, broker
                               ORDER BY reports DESC, batch_id DESC, writer) AS written_rank
  FROM written_bundle_load
) ranked
WHERE written_rank = 1;

-- A living bundle's newest average, if it is not ten minutes older than the newest of all. Of a bundle that moved
-- within the window the row of its owner.
CREATE OR REPLACE TEMPORARY VIEW newest_bundle_load AS
SELECT * FROM (
  SELECT l.*, o.by_broker AS owner, o.state,
         row_number() OVER (PARTITION BY l.bundle
                            ORDER BY l.as_of_ms DESC, CASE WHEN l.broker = o.by_broker THEN 0 ELSE 1 END,
                                     l.reports DESC, l.batch_id DESC, l.broker) AS age_rank
  FROM written_bundle_load l
  JOIN ownership o ON o.bundle = l.bundle AND o.state <> 'retired'
  WHERE l.as_of_ms > (SELECT max(as_of_ms) FROM written_bundle_load) - 10 * 60 * 1000
) ranked
WHERE age_rank = 1;

-- From the first entry that ends an ownership to the entry with the next owner, who may be the one before. A half
-- that stayed where its parent was split has had that broker as its owner.
CREATE OR REPLACE TEMPORARY VIEW handovers AS
WITH entries AS (
  SELECT bundle, seq, coalesce(sum(CASE WHEN state = 'owned' THEN 1 ELSE 0 END)
           OVER (PARTITION BY bundle ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS episode
  FROM journal
  WHERE kind = 'ownership'
),
episodes AS (
  SELECT bundle, min(seq) AS first_seq, max(seq) AS last_seq FROM entries GROUP BY bundle, episode
),
owners AS (
  SELECT e.bundle, f.seq, f.at_ms AS began_ms, f.at_time AS began, l.at_ms AS ended_ms, l.at_time AS ended,
         l.at_ms - f.at_ms AS took_ms, f.state AS began_as, f.reason, f.decision_id, f.command_id,
         coalesce(f.by_broker, lag(l.by_broker) OVER (PARTITION BY e.bundle ORDER BY f.seq)) AS known_before,
         l.by_broker AS broker_after
  FROM episodes e
  JOIN journal f ON f.seq = e.first_seq
  JOIN journal l ON l.seq = e.last_seq
  WHERE l.state = 'owned' AND f.state <> 'owned'
)
SELECT o.bundle, o.seq, o.began_ms, o.began, o.ended_ms, o.ended, o.took_ms, o.began_as, o.reason, o.decision_id,
       o.command_id, coalesce(o.known_before, s.split_by) AS broker_before, o.broker_after,
       CASE o.began_as WHEN 'transferring' THEN 'transfer' WHEN 'releasing' THEN 'unload' WHEN 'free' THEN 'failover'
                       WHEN 'assigning' THEN 'first assignment' WHEN 'splitting' THEN 'split that failed' END AS how
FROM owners o
LEFT JOIN split_children s ON s.child = o.bundle;
