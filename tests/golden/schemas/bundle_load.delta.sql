CREATE TABLE IF NOT EXISTS bundle_load (
  `as_of_ms` BIGINT NOT NULL COMMENT 'pane end the averages are taken at [ms since epoch]',
  `bundle` STRING NOT NULL COMMENT 'bundle name; tail for everything not among the busiest',
  `namespace` STRING NOT NULL COMMENT 'tenant/namespace; empty for the tail',
  `broker` STRING NOT NULL COMMENT 'broker id',
  `reports` BIGINT NOT NULL COMMENT 'reports of the broker that went in: those that list the bundle [count]',
  `msg_rate_in` DOUBLE NOT NULL COMMENT 'short average: msg rate in of the bundle [messages/s]',
  `msg_rate_out` DOUBLE NOT NULL COMMENT 'short average: msg rate out of the bundle [messages/s]',
  `throughput_in` DOUBLE NOT NULL COMMENT 'short average: throughput in of the bundle [bytes/s]',
  `throughput_out` DOUBLE NOT NULL COMMENT 'short average: throughput out of the bundle [bytes/s]',
  `topics` DOUBLE NOT NULL COMMENT 'short average: topics of the bundle [count]',
  `partitions` DOUBLE NOT NULL COMMENT 'short average: partitions of the bundle [count]',
  `producers` DOUBLE NOT NULL COMMENT 'short average: producers of the bundle [count]',
  `consumers` DOUBLE NOT NULL COMMENT 'short average: consumers of the bundle [count]',
  `sessions` DOUBLE NOT NULL COMMENT 'short average: sessions of the bundle [count]',
  `unacked` DOUBLE NOT NULL COMMENT 'short average: unacked of the bundle [messages]',
  `backlog_bytes` DOUBLE NOT NULL COMMENT 'short average: backlog bytes of the bundle [bytes]',
  `storage_bytes` DOUBLE NOT NULL COMMENT 'short average: storage bytes of the bundle [bytes]',
  `cache_bytes` DOUBLE NOT NULL COMMENT 'short average: cache bytes of the bundle [bytes]',
  `msg_rate_long` DOUBLE NOT NULL COMMENT 'decayed average over hours: messages in and out [messages/s]',
  `throughput_long` DOUBLE NOT NULL COMMENT 'decayed average over hours: bytes in and out [bytes/s]',
  `writer` STRING NOT NULL COMMENT 'application id of the writing query',
  `batch_id` BIGINT NOT NULL COMMENT 'micro-batch that wrote the row'
)
USING DELTA
COMMENT 'rolling averages of a bundle on a broker as of a pane end, over the reports that list it and not over the whole window, so that bundles need not sum to their broker; a late report adds a row, and the one with the most reports counts'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'as_of_ms'
)
