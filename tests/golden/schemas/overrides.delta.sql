CREATE TABLE IF NOT EXISTS overrides (
  `override_id` STRING NOT NULL COMMENT 'id of the command that set it',
  `kind` STRING NOT NULL COMMENT 'pin avoid freeze exclude_namespace',
  `namespace` STRING COMMENT 'tenant/namespace it holds for',
  `bundle` STRING COMMENT 'bundle it holds for',
  `broker` STRING COMMENT 'broker it names',
  `until_ms` BIGINT COMMENT 'end; null: until removed [ms since epoch]',
  `who` STRING COMMENT 'who asked',
  `why` STRING COMMENT 'the reason given',
  `entry_seq` BIGINT NOT NULL COMMENT 'journal entry that accepted it',
  `seq` BIGINT NOT NULL COMMENT 'newest journal entry this version of the table includes'
)
USING DELTA
COMMENT 'wishes of operators that constrain rounds and assignments until they end: a fold of the journal'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 5 minutes',
  'delta.deletedFileRetentionDuration' = 'interval 15 minutes',
  'delta.dataSkippingStatsColumns' = 'override_id,seq',
  'delta.enableExpiredLogCleanup' = 'false'
)
