-- Views for DuckDB: times as timestamps, sessions as brokers, JSON as columns. spark.sql has the same views with the
-- same columns. After this script: common.sql.

CREATE OR REPLACE TEMPORARY VIEW journal AS
SELECT *, epoch_ms(at_ms) AS at_time, split_part("by", '#', 1) AS by_broker,
       split_part("to", '#', 1) AS to_broker,
       CAST(data ->> '$.boundary' AS BIGINT) AS boundary
FROM journal_files;

CREATE OR REPLACE TEMPORARY VIEW commands AS
SELECT seq, at_ms, epoch_ms(at_ms) AS at_time, command_id, kind = 'command_accepted' AS accepted,
       reason AS refusal,
       data ->> '$.kind' AS command, data ->> '$.args' AS args, data ->> '$.who' AS who, data ->> '$.why' AS why
FROM journal_files
WHERE kind IN ('command_accepted', 'command_rejected');

CREATE OR REPLACE TEMPORARY VIEW plans AS
SELECT seq, at_ms, epoch_ms(at_ms) AS at_time, data ->> '$.round_id' AS round_id, reason AS became,
       data ->> '$.who' AS who, data ->> '$.why' AS why
FROM journal_files
WHERE kind = 'plan';

CREATE OR REPLACE TEMPORARY VIEW split_children AS
SELECT seq, at_ms, at_time, parent, split_by, decision_id, command_id, half.key AS child, half.value AS first_epoch
FROM (
  SELECT seq, at_ms, epoch_ms(at_ms) AS at_time, bundle AS parent, split_part("by", '#', 1) AS split_by, decision_id,
         command_id, unnest(map_entries((data -> '$.children')::MAP(VARCHAR, BIGINT))) AS half
  FROM journal_files
  WHERE kind = 'split'
);

CREATE OR REPLACE TEMPORARY VIEW ownership AS SELECT * FROM ownership_files;

CREATE OR REPLACE TEMPORARY VIEW brokers AS SELECT * FROM brokers_files;

CREATE OR REPLACE TEMPORARY VIEW written_rounds AS
SELECT *, epoch_ms(at_ms) AS at_time FROM rounds_files;

CREATE OR REPLACE TEMPORARY VIEW written_decisions AS
SELECT *, epoch_ms(at_ms) AS at_time,
       CASE WHEN round_id LIKE 'step-%' THEN evidence_json ->> '$.decision' END AS carries_out,
       (before_json::JSON::MAP(VARCHAR, DOUBLE))[source] AS source_before,
       (after_json::JSON::MAP(VARCHAR, DOUBLE))[source] AS source_after,
       (before_json::JSON::MAP(VARCHAR, DOUBLE))[target] AS target_before,
       (after_json::JSON::MAP(VARCHAR, DOUBLE))[target] AS target_after
FROM decisions_files;

CREATE OR REPLACE TEMPORARY VIEW written_broker_scores AS
SELECT *, epoch_ms(at_ms) AS at_time FROM broker_scores_files;

CREATE OR REPLACE TEMPORARY VIEW written_broker_load AS
SELECT *, epoch_ms(as_of_ms) AS as_of, CAST(epoch_ms(as_of_ms) AS DATE) AS day,
       isodow(epoch_ms(as_of_ms)) AS weekday, hour(epoch_ms(as_of_ms)) AS hour,
       greatest(cpu_utilisation, memory_utilisation, direct_memory_utilisation, bandwidth_in_utilisation,
                bandwidth_out_utilisation, disk_io_utilisation) AS utilisation
FROM broker_load_files;

CREATE OR REPLACE TEMPORARY VIEW written_bundle_load AS
SELECT *, epoch_ms(as_of_ms) AS as_of FROM bundle_load_files;

CREATE OR REPLACE TEMPORARY VIEW quarantine AS
SELECT *, epoch_ms(detected_ms) AS detected FROM quarantine_files;
