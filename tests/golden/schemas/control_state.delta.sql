CREATE TABLE IF NOT EXISTS control_state (
  `seq` BIGINT NOT NULL COMMENT 'newest journal entry the snapshot includes',
  `instance` STRING NOT NULL COMMENT 'controller instance that wrote it',
  `at_ms` BIGINT NOT NULL COMMENT 'wall time [ms since epoch]',
  `state_json` STRING NOT NULL COMMENT 'the state, canonical JSON (controller.domain.state_codec)'
)
USING DELTA
COMMENT 'base snapshots: the state that the fold of the journal starts from'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 5 minutes',
  'delta.deletedFileRetentionDuration' = 'interval 15 minutes',
  'delta.dataSkippingStatsColumns' = 'seq',
  'delta.enableExpiredLogCleanup' = 'false'
)
