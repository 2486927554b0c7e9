-- Names the tables by path, for Spark, and for Databricks on compute that may read the path. Before it, with an
-- absolute path or an address such as s3://bucket/ballast:
--   SET ballast.tables = /srv/ballast/tables

CREATE OR REPLACE TEMPORARY VIEW journal_files AS SELECT * FROM delta.`${ballast.tables}/journal`;
CREATE OR REPLACE TEMPORARY VIEW ownership_files AS SELECT * FROM delta.`${ballast.tables}/ownership`;
CREATE OR REPLACE TEMPORARY VIEW brokers_files AS SELECT * FROM delta.`${ballast.tables}/brokers`;
CREATE OR REPLACE TEMPORARY VIEW rounds_files AS SELECT * FROM delta.`${ballast.tables}/rounds`;
CREATE OR REPLACE TEMPORARY VIEW decisions_files AS SELECT * FROM delta.`${ballast.tables}/decisions`;
CREATE OR REPLACE TEMPORARY VIEW broker_scores_files AS SELECT * FROM delta.`${ballast.tables}/broker_scores`;
CREATE OR REPLACE TEMPORARY VIEW broker_load_files AS SELECT * FROM delta.`${ballast.tables}/broker_load`;
CREATE OR REPLACE TEMPORARY VIEW bundle_load_files AS SELECT * FROM delta.`${ballast.tables}/bundle_load`;
CREATE OR REPLACE TEMPORARY VIEW quarantine_files AS SELECT * FROM delta.`${ballast.tables}/quarantine`;
