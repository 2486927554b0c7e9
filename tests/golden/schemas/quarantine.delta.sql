CREATE TABLE IF NOT EXISTS quarantine (
  `detected_ms` BIGINT NOT NULL COMMENT 'wall time of the batch that found it [ms since epoch]',
  `topic` STRING NOT NULL COMMENT 'Kafka topic',
  `partition` BIGINT NOT NULL COMMENT 'Kafka partition',
  `kafka_offset` BIGINT NOT NULL COMMENT 'Kafka offset',
  `kafka_timestamp_ms` BIGINT COMMENT 'timestamp of the Kafka record [ms since epoch]',
  `rule` STRING NOT NULL COMMENT 'id of the rule it breaks',
  `text` STRING NOT NULL COMMENT 'what is wrong, with the offending value',
  `raw` STRING COMMENT 'the record, as text or base64; null for an empty one',
  `raw_base64` BOOLEAN NOT NULL COMMENT 'raw is base64, because it is not UTF-8',
  `source` STRING NOT NULL COMMENT 'loads or control',
  `batch_id` BIGINT NOT NULL COMMENT 'micro-batch that found it'
)
USING DELTA
COMMENT 'records from outside that break a rule; they influence nothing else'
TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'false',
  'delta.columnMapping.mode' = 'none',
  'delta.checkpointPolicy' = 'classic',
  'delta.checkpointInterval' = '50',
  'delta.logRetentionDuration' = 'interval 6 hours',
  'delta.deletedFileRetentionDuration' = 'interval 6 hours',
  'delta.dataSkippingStatsColumns' = 'detected_ms'
)
