CREATE TABLE IF NOT EXISTS config_history (
  `config_version` STRING NOT NULL COMMENT 'hash of the effective values',
  `instance` STRING NOT NULL COMMENT 'controller instance that started with it',
  `at_ms` BIGINT NOT NULL COMMENT 'wall time of the start [ms since epoch]',
  `code_version` STRING NOT NULL COMMENT 'version of the code',
  `config_json` STRING NOT NULL COMMENT 'effective values, secrets left out, JSON'
)
USING DELTA
COMMENT 'every configuration a controller ran with'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'at_ms',
  'delta.appendOnly' = 'true'
)
