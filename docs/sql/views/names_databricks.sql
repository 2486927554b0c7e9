-- Names the tables that register_databricks.sql has registered. Then spark.sql and common.sql, in the same session.

CREATE OR REPLACE TEMPORARY VIEW journal_files AS SELECT * FROM main.ballast.journal;
CREATE OR REPLACE TEMPORARY VIEW ownership_files AS SELECT * FROM main.ballast.ownership;
CREATE OR REPLACE TEMPORARY VIEW brokers_files AS SELECT * FROM main.ballast.brokers;
CREATE OR REPLACE TEMPORARY VIEW rounds_files AS SELECT * FROM main.ballast.rounds;
CREATE OR REPLACE TEMPORARY VIEW decisions_files AS SELECT * FROM main.ballast.decisions;
CREATE OR REPLACE TEMPORARY VIEW broker_scores_files AS SELECT * FROM main.ballast.broker_scores;
CREATE OR REPLACE TEMPORARY VIEW broker_load_files AS SELECT * FROM main.ballast.broker_load;
CREATE OR REPLACE TEMPORARY VIEW bundle_load_files AS SELECT * FROM main.ballast.bundle_load;
CREATE OR REPLACE TEMPORARY VIEW quarantine_files AS SELECT * FROM main.ballast.quarantine;
