CREATE TABLE IF NOT EXISTS brokers (
  `broker` STRING NOT NULL COMMENT 'broker id',
  `incarnation` BIGINT NOT NULL COMMENT 'grows each time the process starts',
  `nonce` STRING NOT NULL COMMENT 'random name of the process',
  `session` STRING NOT NULL COMMENT 'newest session, broker#incarnation.nonce.number',
  `state` STRING NOT NULL COMMENT 'alive or gone',
  `drained` BOOLEAN NOT NULL COMMENT 'gets no bundles until undrained',
  `leaving` BOOLEAN NOT NULL COMMENT 'is handing everything over before it goes',
  `runtime` STRING NOT NULL COMMENT 'reference or pulsar',
  `lookup_url` STRING COMMENT 'where it answers lookups',
  `data_address` STRING COMMENT 'where clients connect',
  `capacity_json` STRING COMMENT 'declared capacity, JSON',
  `entry_seq` BIGINT NOT NULL COMMENT 'journal entry that made the row what it is',
  `seq` BIGINT NOT NULL COMMENT 'newest journal entry this version of the table includes'
)
USING DELTA
COMMENT 'the registry: every broker ever seen with its newest session, a fold of the journal'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 5 minutes',
  'delta.deletedFileRetentionDuration' = 'interval 15 minutes',
  'delta.dataSkippingStatsColumns' = 'broker,seq',
  'delta.enableExpiredLogCleanup' = 'false'
)
