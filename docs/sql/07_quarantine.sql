-- What was quarantined?
--
-- Records that break a rule stop nothing and influence nothing. Many of one rule, from many brokers and from the
-- same moment on, usually mean that another version of the agent was rolled out. Kafka has the whole record at
-- `last_place` (partition@offset) for as long as the topic retains it.

SELECT source, topic, rule, count(*) AS records, min(detected) AS first_time, max(detected) AS last_time,
       max_by(text, kafka_offset) AS last_text, max_by(concat(partition, '@', kafka_offset), kafka_offset) AS last_place
FROM quarantine
GROUP BY source, topic, rule
ORDER BY records DESC, rule, topic
