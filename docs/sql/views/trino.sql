-- Tables and views for Trino's Delta Lake connector. Not run. The catalog is delta, the schema ballast. Views are
-- kept in the metastore: run this script once, then common.sql with CREATE OR REPLACE VIEW instead of CREATE OR
-- REPLACE TEMPORARY VIEW. The catalog needs delta.register-table-procedure.enabled=true.

CREATE SCHEMA IF NOT EXISTS delta.ballast;
USE delta.ballast;

CALL delta.system.register_table('ballast', 'journal_files', 's3://CHANGE-ME/ballast/journal');
CALL delta.system.register_table('ballast', 'ownership_files', 's3://CHANGE-ME/ballast/ownership');
CALL delta.system.register_table('ballast', 'brokers_files', 's3://CHANGE-ME/ballast/brokers');
CALL delta.system.register_table('ballast', 'rounds_files', 's3://CHANGE-ME/ballast/rounds');
CALL delta.system.register_table('ballast', 'decisions_files', 's3://CHANGE-ME/ballast/decisions');
CALL delta.system.register_table('ballast', 'broker_scores_files', 's3://CHANGE-ME/ballast/broker_scores');
CALL delta.system.register_table('ballast', 'broker_load_files', 's3://CHANGE-ME/ballast/broker_load');
CALL delta.system.register_table('ballast', 'bundle_load_files', 's3://CHANGE-ME/ballast/bundle_load');
CALL delta.system.register_table('ballast', 'quarantine_files', 's3://CHANGE-ME/ballast/quarantine');

CREATE OR REPLACE VIEW journal AS
SELECT *, from_unixtime(at_ms / 1e3) AS at_time, split_part("by", '#', 1) AS by_broker,
       split_part("to", '#', 1) AS to_broker,
       CAST(json_extract_scalar(data, '$.boundary') AS BIGINT) AS boundary
FROM journal_files;

CREATE OR REPLACE VIEW commands AS
SELECT seq, at_ms, from_unixtime(at_ms / 1e3) AS at_time, command_id, kind = 'command_accepted' AS accepted,
       reason AS refusal,
       json_extract_scalar(data, '$.kind') AS command, json_format(json_extract(data, '$.args')) AS args,
       json_extract_scalar(data, '$.who') AS who, json_extract_scalar(data, '$.why') AS why
FROM journal_files
WHERE kind IN ('command_accepted', 'command_rejected');

CREATE OR REPLACE VIEW plans AS
SELECT seq, at_ms, from_unixtime(at_ms / 1e3) AS at_time, json_extract_scalar(data, '$.round_id') AS round_id,
       reason AS became, json_extract_scalar(data, '$.who') AS who, json_extract_scalar(data, '$.why') AS why
FROM journal_files
WHERE kind = 'plan';

CREATE OR REPLACE VIEW split_children AS
SELECT j.seq, j.at_ms, from_unixtime(j.at_ms / 1e3) AS at_time, j.bundle AS parent,
       split_part(j."by", '#', 1) AS split_by, j.decision_id, j.command_id, half.child, half.first_epoch
FROM journal_files j
CROSS JOIN UNNEST(CAST(json_extract(j.data, '$.children') AS MAP(VARCHAR, BIGINT))) AS half (child, first_epoch)
WHERE j.kind = 'split';

CREATE OR REPLACE VIEW ownership AS SELECT * FROM ownership_files;

CREATE OR REPLACE VIEW brokers AS SELECT * FROM brokers_files;

CREATE OR REPLACE VIEW written_rounds AS
SELECT *, from_unixtime(at_ms / 1e3) AS at_time FROM rounds_files;

CREATE OR REPLACE VIEW written_decisions AS
SELECT *, from_unixtime(at_ms / 1e3) AS at_time,
       CASE WHEN round_id LIKE 'step-%' THEN json_extract_scalar(evidence_json, '$.decision') END AS carries_out,
       element_at(CAST(json_parse(before_json) AS MAP(VARCHAR, DOUBLE)), source) AS source_before,
       element_at(CAST(json_parse(after_json) AS MAP(VARCHAR, DOUBLE)), source) AS source_after,
       element_at(CAST(json_parse(before_json) AS MAP(VARCHAR, DOUBLE)), target) AS target_before,
       element_at(CAST(json_parse(after_json) AS MAP(VARCHAR, DOUBLE)), target) AS target_after
FROM decisions_files;

CREATE OR REPLACE VIEW written_broker_scores AS
SELECT *, from_unixtime(at_ms / 1e3) AS at_time FROM broker_scores_files;

CREATE OR REPLACE VIEW written_broker_load AS
SELECT *, from_unixtime(as_of_ms / 1e3) AS as_of, CAST(from_unixtime(as_of_ms / 1e3) AS DATE) AS day,
       day_of_week(from_unixtime(as_of_ms / 1e3)) AS weekday, hour(from_unixtime(as_of_ms / 1e3)) AS hour,
       nullif(greatest(coalesce(cpu_utilisation, -1), coalesce(memory_utilisation, -1),
                       coalesce(direct_memory_utilisation, -1), coalesce(bandwidth_in_utilisation, -1),
                       coalesce(bandwidth_out_utilisation, -1), coalesce(disk_io_utilisation, -1)), -1) AS utilisation
FROM broker_load_files;

CREATE OR REPLACE VIEW written_bundle_load AS
SELECT *, from_unixtime(as_of_ms / 1e3) AS as_of FROM bundle_load_files;

CREATE OR REPLACE VIEW quarantine AS
SELECT *, from_unixtime(detected_ms / 1e3) AS detected FROM quarantine_files;
