-- Views for Spark SQL and Databricks: times as timestamps, sessions as brokers, JSON as columns. duckdb.sql has the
-- same views with the same columns. After this script: common.sql.

CREATE OR REPLACE TEMPORARY VIEW journal AS
SELECT *, timestamp_millis(at_ms) AS at_time, split_part(`by`, '#', 1) AS by_broker,
       split_part(`to`, '#', 1) AS to_broker,
       CAST(get_json_object(data, '$.boundary') AS BIGINT) AS boundary
FROM journal_files;

CREATE OR REPLACE TEMPORARY VIEW commands AS
SELECT seq, at_ms, timestamp_millis(at_ms) AS at_time, command_id, kind = 'command_accepted' AS accepted,
       reason AS refusal,
       get_json_object(data, '$.kind') AS command, get_json_object(data, '$.args') AS args,
       get_json_object(data, '$.who') AS who, get_json_object(data, '$.why') AS why
FROM journal_files
WHERE kind IN ('command_accepted', 'command_rejected');

CREATE OR REPLACE TEMPORARY VIEW plans AS
SELECT seq, at_ms, timestamp_millis(at_ms) AS at_time, get_json_object(data, '$.round_id') AS round_id,
       reason AS became, get_json_object(data, '$.who') AS who, get_json_object(data, '$.why') AS why
FROM journal_files
WHERE kind = 'plan';

CREATE OR REPLACE TEMPORARY VIEW split_children AS
SELECT seq, at_ms, timestamp_millis(at_ms) AS at_time, bundle AS parent, split_part(`by`, '#', 1) AS split_by,
       decision_id, command_id,
       explode(from_json(get_json_object(data, '$.children'), 'map<string,bigint>')) AS (child, first_epoch)
FROM journal_files
WHERE kind = 'split';

CREATE OR REPLACE TEMPORARY VIEW ownership AS SELECT * FROM ownership_files;

CREATE OR REPLACE TEMPORARY VIEW brokers AS SELECT * FROM brokers_files;

CREATE OR REPLACE TEMPORARY VIEW written_rounds AS
SELECT *, timestamp_millis(at_ms) AS at_time FROM rounds_files;

CREATE OR REPLACE TEMPORARY VIEW written_decisions AS
SELECT *, timestamp_millis(at_ms) AS at_time,
       CASE WHEN round_id LIKE 'step-%' THEN get_json_object(evidence_json, '$.decision') END AS carries_out,
       from_json(before_json, 'map<string,double>')[source] AS source_before,
       from_json(after_json, 'map<string,double>')[source] AS source_after,
       from_json(before_json, 'map<string,double>')[target] AS target_before,
       from_json(after_json, 'map<string,double>')[target] AS target_after
FROM decisions_files;

CREATE OR REPLACE TEMPORARY VIEW written_broker_scores AS
SELECT *, timestamp_millis(at_ms) AS at_time FROM broker_scores_files;

CREATE OR REPLACE TEMPORARY VIEW written_broker_load AS
SELECT *, timestamp_millis(as_of_ms) AS as_of, CAST(timestamp_millis(as_of_ms) AS DATE) AS day,
       weekday(CAST(timestamp_millis(as_of_ms) AS DATE)) + 1 AS weekday, hour(timestamp_millis(as_of_ms)) AS hour,
       greatest(cpu_utilisation, memory_utilisation, direct_memory_utilisation, bandwidth_in_utilisation,
                bandwidth_out_utilisation, disk_io_utilisation) AS utilisation
FROM broker_load_files;

CREATE OR REPLACE TEMPORARY VIEW written_bundle_load AS
SELECT *, timestamp_millis(as_of_ms) AS as_of FROM bundle_load_files;

CREATE OR REPLACE TEMPORARY VIEW quarantine AS
SELECT *, timestamp_millis(detected_ms) AS detected FROM quarantine_files;
