CREATE TABLE IF NOT EXISTS rounds (
  `round_id` STRING NOT NULL COMMENT 'the round',
  `attempt_id` STRING NOT NULL COMMENT 'random id of the write; rows count when a journal entry names it',
  `at_ms` BIGINT NOT NULL COMMENT 'time of the round on the event-time axis of the reports [ms since epoch]',
  `mode` STRING NOT NULL COMMENT 'shadow live paused',
  `strategy` STRING NOT NULL COMMENT 'strategy that decided',
  `challenger` BOOLEAN NOT NULL COMMENT 'ran in shadow beside the live strategy',
  `state_seq` BIGINT NOT NULL COMMENT 'journal seq its ownership was read at',
  `decisions` BIGINT NOT NULL COMMENT 'decisions, skips included [count]',
  `moves` BIGINT NOT NULL COMMENT 'transfers and unloads decided [count]',
  `splits` BIGINT NOT NULL COMMENT 'splits decided [count]',
  `skips` BIGINT NOT NULL COMMENT 'skips [count]',
  `mean_score` DOUBLE COMMENT 'mean score of the eligible brokers [fraction]',
  `max_score` DOUBLE COMMENT 'largest score of the eligible brokers [fraction]',
  `plan_hash` STRING NOT NULL COMMENT 'hash over inputs and decisions; replay must get it again',
  `config_version` STRING NOT NULL COMMENT 'configuration it ran with',
  `code_version` STRING NOT NULL COMMENT 'code it ran with',
  `inputs_json` STRING NOT NULL COMMENT 'what the strategy read, sorted and quantised, JSON',
  `duration_ms` BIGINT COMMENT 'time the evaluation took [ms]',
  `wall_ms` BIGINT NOT NULL COMMENT 'wall time of the write [ms since epoch]',
  `rules` BIGINT COMMENT 'which rules of the strategy decided; null: 1, those of 0.1.0'
)
USING DELTA
COMMENT 'one evaluation of the whole cluster, also when it decides nothing'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'at_ms,attempt_id'
)
