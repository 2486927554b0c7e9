CREATE TABLE IF NOT EXISTS broker_scores (
  `round_id` STRING NOT NULL COMMENT 'the round',
  `attempt_id` STRING NOT NULL COMMENT 'random id of the write; rows count when a journal entry names it',
  `at_ms` BIGINT NOT NULL COMMENT 'time of the round on the event-time axis of the reports [ms since epoch]',
  `broker` STRING NOT NULL COMMENT 'broker id',
  `score` DOUBLE COMMENT 'largest weighted short average, as measured; null: unknown [fraction]',
  `mean` DOUBLE COMMENT 'what the strategy judged the broker against, by its own figures; the mean measured score is in rounds [fraction]',
  `hits` BIGINT NOT NULL COMMENT 'consecutive rounds above a threshold [count]',
  `eligible` BOOLEAN NOT NULL COMMENT 'has fresh and complete reports and no constraint against it',
  `is_source` BOOLEAN NOT NULL COMMENT 'load was to be moved off it',
  `reason` STRING COMMENT 'reason code',
  `cpu_utilisation` DOUBLE COMMENT 'short average of cpu; null: unknown [fraction]',
  `memory_utilisation` DOUBLE COMMENT 'short average of memory; null: unknown [fraction]',
  `direct_memory_utilisation` DOUBLE COMMENT 'short average of direct_memory; null: unknown [fraction]',
  `bandwidth_in_utilisation` DOUBLE COMMENT 'short average of bandwidth_in; null: unknown [fraction]',
  `bandwidth_out_utilisation` DOUBLE COMMENT 'short average of bandwidth_out; null: unknown [fraction]',
  `disk_io_utilisation` DOUBLE COMMENT 'short average of disk_io; null: unknown [fraction]'
)
USING DELTA
COMMENT 'score of each broker in a round, and why it was source, target or neither'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'at_ms,attempt_id'
)
