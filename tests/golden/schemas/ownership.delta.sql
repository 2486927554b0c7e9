CREATE TABLE IF NOT EXISTS ownership (
  `bundle` STRING NOT NULL COMMENT 'bundle name, tenant/namespace/0xLLLLLLLL_0xUUUUUUUU',
  `namespace` STRING NOT NULL COMMENT 'tenant/namespace',
  `lower` BIGINT NOT NULL COMMENT 'first hash of the range [CRC-32]',
  `upper` BIGINT NOT NULL COMMENT 'end of the range, exclusive except at 0xffffffff [CRC-32]',
  `state` STRING NOT NULL COMMENT 'free assigning owned transferring releasing splitting retired; observed: owned ordered unknown disputed',
  `epoch` BIGINT NOT NULL COMMENT 'fencing token; grows along the lineage of a range; observed: that of the observation',
  `by_broker` STRING COMMENT 'broker that serves it',
  `by_session` STRING COMMENT 'session that serves it',
  `to_broker` STRING COMMENT 'broker it goes to',
  `to_session` STRING COMMENT 'session it goes to',
  `released` BOOLEAN NOT NULL COMMENT 'while releasing: the old owner has let go',
  `fence` BOOLEAN NOT NULL COMMENT 'while releasing: the store is to be fenced first',
  `boundary` BIGINT COMMENT 'while splitting: where [CRC-32]',
  `cause` STRING COMMENT 'decision or command behind the newest transition',
  `moved_at_ms` BIGINT COMMENT 'record time of the last move by a round [ms since epoch]',
  `entry_seq` BIGINT NOT NULL COMMENT 'journal entry that made the row what it is',
  `seq` BIGINT NOT NULL COMMENT 'newest journal entry this version of the table includes',
  `authority` STRING COMMENT 'metadata: it is observed, its own cluster decides; null: the journal',
  `order_id` STRING COMMENT 'the open order about it',
  `order_kind` STRING COMMENT 'of that order: move unload split',
  `orders_failed` BIGINT COMMENT 'orders in a row that brought nothing'
)
USING DELTA
COMMENT 'state and owner of every bundle, owned or observed: a fold of the journal'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '100',
  'delta.logRetentionDuration' = 'interval 5 minutes',
  'delta.deletedFileRetentionDuration' = 'interval 15 minutes',
  'delta.dataSkippingStatsColumns' = 'bundle,seq',
  'delta.enableExpiredLogCleanup' = 'false'
)
