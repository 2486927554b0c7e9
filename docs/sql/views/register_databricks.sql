-- Registers the tables in Unity Catalog and lets a group read them. Run it once, in a SQL editor or notebook of
-- Databricks. Before: a storage credential that may read the bucket. Replace s3://CHANGE-ME/ballast, ballast_read,
-- main.ballast and operators by your own. Nobody gets MODIFY: Ballast alone writes these tables, with delta-rs.

CREATE EXTERNAL LOCATION IF NOT EXISTS ballast_tables
URL 's3://CHANGE-ME/ballast'
WITH (STORAGE CREDENTIAL ballast_read)
COMMENT 'The tables of Ballast, written by delta-rs alone';

CREATE SCHEMA IF NOT EXISTS main.ballast COMMENT 'The tables of Ballast: read only';

CREATE TABLE IF NOT EXISTS main.ballast.journal USING DELTA LOCATION 's3://CHANGE-ME/ballast/journal';
CREATE TABLE IF NOT EXISTS main.ballast.ownership USING DELTA LOCATION 's3://CHANGE-ME/ballast/ownership';
CREATE TABLE IF NOT EXISTS main.ballast.brokers USING DELTA LOCATION 's3://CHANGE-ME/ballast/brokers';
CREATE TABLE IF NOT EXISTS main.ballast.control_state USING DELTA LOCATION 's3://CHANGE-ME/ballast/control_state';
CREATE TABLE IF NOT EXISTS main.ballast.rounds USING DELTA LOCATION 's3://CHANGE-ME/ballast/rounds';
CREATE TABLE IF NOT EXISTS main.ballast.decisions USING DELTA LOCATION 's3://CHANGE-ME/ballast/decisions';
CREATE TABLE IF NOT EXISTS main.ballast.broker_scores USING DELTA LOCATION 's3://CHANGE-ME/ballast/broker_scores';
CREATE TABLE IF NOT EXISTS main.ballast.broker_panes USING DELTA LOCATION 's3://CHANGE-ME/ballast/broker_panes';
CREATE TABLE IF NOT EXISTS main.ballast.bundle_panes USING DELTA LOCATION 's3://CHANGE-ME/ballast/bundle_panes';
CREATE TABLE IF NOT EXISTS main.ballast.broker_load USING DELTA LOCATION 's3://CHANGE-ME/ballast/broker_load';
CREATE TABLE IF NOT EXISTS main.ballast.bundle_load USING DELTA LOCATION 's3://CHANGE-ME/ballast/bundle_load';
CREATE TABLE IF NOT EXISTS main.ballast.quarantine USING DELTA LOCATION 's3://CHANGE-ME/ballast/quarantine';
CREATE TABLE IF NOT EXISTS main.ballast.overrides USING DELTA LOCATION 's3://CHANGE-ME/ballast/overrides';
CREATE TABLE IF NOT EXISTS main.ballast.config_history USING DELTA LOCATION 's3://CHANGE-ME/ballast/config_history';
CREATE TABLE IF NOT EXISTS main.ballast.usage_model USING DELTA LOCATION 's3://CHANGE-ME/ballast/usage_model';

GRANT USE CATALOG ON CATALOG main TO `operators`;
GRANT USE SCHEMA, SELECT ON SCHEMA main.ballast TO `operators`;
