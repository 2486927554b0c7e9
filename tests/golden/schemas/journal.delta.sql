CREATE TABLE IF NOT EXISTS journal (
  `seq` BIGINT NOT NULL COMMENT 'dense number of the entry; readers apply exactly seq + 1',
  `kind` STRING NOT NULL COMMENT 'what it tells',
  `instance` STRING NOT NULL COMMENT 'controller instance that wrote it',
  `batch` BIGINT NOT NULL COMMENT 'micro-batch of that instance',
  `at_ms` BIGINT NOT NULL COMMENT 'wall time of the batch, for people; nothing is decided by it [ms since epoch]',
  `bundle` STRING COMMENT 'bundle name',
  `state` STRING COMMENT 'ownership state',
  `epoch` BIGINT COMMENT 'fencing token of the attempt',
  `by` STRING COMMENT 'session that serves or served, broker#incarnation.nonce.number',
  `to` STRING COMMENT 'session it goes to',
  `broker` STRING COMMENT 'broker id',
  `session` STRING COMMENT 'session registered or ended',
  `reason` STRING COMMENT 'reason code or text',
  `command_id` STRING COMMENT 'command behind it',
  `decision_id` STRING COMMENT 'decision behind it',
  `attempt_id` STRING COMMENT 'joins the rows of rounds, decisions and broker_scores',
  `data` STRING COMMENT 'what only some kinds carry, canonical JSON'
)
USING DELTA
COMMENT 'the append-only truth: everything decided and everything that happened'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 5 minutes',
  'delta.deletedFileRetentionDuration' = 'interval 15 minutes',
  'delta.dataSkippingStatsColumns' = 'seq,kind,at_ms',
  'delta.appendOnly' = 'true',
  'delta.enableExpiredLogCleanup' = 'false'
)
