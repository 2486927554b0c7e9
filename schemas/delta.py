"""The Delta form: CREATE TABLE text and table properties.

The properties keep every table readable by agents with delta-rs (no deletion vectors, no column mapping, no v2
checkpoints: reader version 1) and small (hours of log and deleted files instead of Delta's 30 and 7 days).
"""

from __future__ import annotations

from schemas.record import Record
from schemas.spark import ddl_type


def delta_properties(record: Record) -> dict[str, str]:
    """The table's TBLPROPERTIES. Raises ValueError for a record that is no table."""
    options = record.table
    if options is None:
        raise ValueError(f"{record.name} is a wire record, not a table; tables are in schemas.catalog.TABLES")
    properties = {
        "delta.enableDeletionVectors": "false",
        "delta.columnMapping.mode": "none",
        "delta.checkpointPolicy": "classic",
        "delta.checkpointInterval": str(options.checkpoint_interval),
        "delta.logRetentionDuration": _interval(options.log_retention_minutes),
        "delta.deletedFileRetentionDuration": _interval(options.deleted_file_retention_minutes),
    }
    if options.statistics:
        properties["delta.dataSkippingStatsColumns"] = ",".join(options.statistics)
    if options.append_only:
        properties["delta.appendOnly"] = "true"
    if options.tended_by_writer:
        properties["delta.enableExpiredLogCleanup"] = "false"
    return properties


def retention_properties(record: Record) -> dict[str, str]:
    """The properties about retention and append-only, which may differ between versions of Ballast."""
    names = (
        "delta.checkpointInterval",
        "delta.logRetentionDuration",
        "delta.deletedFileRetentionDuration",
        "delta.appendOnly",
        "delta.enableExpiredLogCleanup",
    )
    properties = delta_properties(record)
    return {name: properties[name] for name in names if name in properties}


def delta_ddl(record: Record, location: str = "") -> str:
    """CREATE TABLE IF NOT EXISTS for Spark SQL. `location`: a path; without one, a managed table."""
    columns = ",\n".join(
        f"  `{f.name}` {ddl_type(f.type)}{'' if f.nullable else ' NOT NULL'} COMMENT '{f.full_comment}'" for f in record
    )
    properties = ",\n".join(f"  '{key}' = '{value}'" for key, value in delta_properties(record).items())
    where = f"\nLOCATION '{location}'" if location else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {record.name} (\n{columns}\n)\nUSING DELTA\nCOMMENT '{record.comment}'{where}\n"
        f"TBLPROPERTIES (\n{properties}\n)\n"
    )


def _interval(minutes: int) -> str:
    return f"interval {minutes} minutes" if minutes % 60 else f"interval {minutes // 60} hours"
