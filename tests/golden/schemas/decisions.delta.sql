CREATE TABLE IF NOT EXISTS decisions (
  `decision_id` STRING NOT NULL COMMENT 'the decision; journal entries name it as their cause',
  `round_id` STRING NOT NULL COMMENT 'the round, or step-INSTANCE-BATCH: the control step decided by itself',
  `attempt_id` STRING NOT NULL COMMENT 'random id of the write; rows count when a journal entry names it',
  `at_ms` BIGINT NOT NULL COMMENT 'of a round its time on the axis of the reports, else wall time [ms since epoch]',
  `kind` STRING NOT NULL COMMENT 'assign transfer unload split skip',
  `label` STRING NOT NULL COMMENT 'success skip failure',
  `reason` STRING NOT NULL COMMENT 'reason code; its hundred is the band',
  `band` STRING NOT NULL COMMENT 'normal throttled config hard',
  `bundle` STRING COMMENT 'bundle',
  `source` STRING COMMENT 'broker it leaves',
  `target` STRING COMMENT 'broker it goes to',
  `epoch` BIGINT COMMENT 'epoch of the bundle it was decided on',
  `boundary` BIGINT COMMENT 'where to split [CRC-32]',
  `strategy` STRING NOT NULL COMMENT 'strategy that decided; placement or proposal where the control step did',
  `challenger` BOOLEAN NOT NULL COMMENT 'ran in shadow beside the live strategy',
  `executed` BOOLEAN NOT NULL COMMENT 'the controller carried it out',
  `outcome` STRING COMMENT 'executed, or the reason code why not, as of its round',
  `evidence_json` STRING NOT NULL COMMENT 'numbers seen, rule fired, candidates that lost, JSON',
  `before_json` STRING NOT NULL COMMENT 'what the strategy judged brokers by, moves chosen before it included: measured scores or, as steady does, its own estimates; by broker, JSON',
  `after_json` STRING NOT NULL COMMENT 'the same as predicted after the decision, JSON'
)
USING DELTA
COMMENT 'one decision of a round or of the control step, skips included, with its evidence'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'at_ms,attempt_id'
)
