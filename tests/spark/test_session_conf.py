"""What the job adds to the Spark settings it was submitted with."""

from __future__ import annotations

from pyspark import SparkConf

from jobs.session import ROOT, fill_in, read_conf


def submitted(master: str, conf_file: str) -> SparkConf:
    """The settings of a submitted job once the job has filled in what is missing."""
    conf = SparkConf(loadDefaults=False).set("spark.submit.deployMode", "client").set("spark.master", master)
    for key, value in read_conf(ROOT / "conf" / "spark" / conf_file).items():
        if not conf.contains(key):
            conf.set(key, value)
    fill_in(conf)
    return conf


def test_executors_of_a_cluster_can_reach_the_driver() -> None:
    conf = submitted("spark://master:7077", "cluster.conf")
    assert conf.get("spark.driver.host", "") == ""
    assert conf.get("spark.driver.bindAddress", "") == ""


def test_on_one_machine_nothing_listens_beyond_it() -> None:
    assert submitted("local[2]", "local.conf").get("spark.driver.host") == "127.0.0.1"
    assert submitted("local[2]", "cluster.conf").get("spark.driver.bindAddress") == "127.0.0.1"


def test_what_was_submitted_wins_over_the_file_and_the_callers_wishes() -> None:
    conf = SparkConf(loadDefaults=False).set("spark.sql.shuffle.partitions", "7")
    fill_in(
        conf, ROOT / "conf" / "spark" / "local.conf", {"spark.sql.shuffle.partitions": "5", "spark.log.level": "INFO"}
    )
    assert conf.get("spark.sql.shuffle.partitions") == "7"
    assert conf.get("spark.log.level") == "INFO"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
