"""Events in the log: records like those of the standard library, made for less."""

import logging
from collections.abc import Iterator

import pytest

from penstock.operations.telemetry.log_events import EventRecord, log_event

EVERYTHING = "%(name)s %(levelname)s %(message)s %(asctime)s %(pathname)s %(lineno)d %(funcName)s %(threadName)s"


@pytest.fixture
def heard() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger("penstock.test_log_events"), Hearing()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.removeHandler(handler)


def test_an_event_has_every_attribute_that_a_record_of_the_standard_library_has(
    heard: list[logging.LogRecord],
) -> None:
    logger = logging.getLogger("penstock.test_log_events")
    logger.info("request", extra={"fields": {"status": 200}})
    log_event(logger, logging.INFO, "request", {"status": 200})
    theirs, ours = heard
    assert type(ours) is EventRecord
    assert {*theirs.__dict__} - {"taskName"} == {*ours.__dict__}
    differing = {"created", "msecs", "relativeCreated", "pathname", "filename", "module", "lineno", "funcName"}
    for name in {*ours.__dict__} - differing:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert abs(ours.created - theirs.created) < 60
    assert 0 <= ours.msecs < 1000
    assert logging.Formatter(EVERYTHING).format(ours).startswith("penstock.test_log_events INFO request ")


def test_an_event_below_the_level_is_not_logged(heard: list[logging.LogRecord]) -> None:
    log_event(logging.getLogger("penstock.test_log_events"), logging.DEBUG, "request", {})
    assert heard == []


def test_who_chose_a_class_for_records_gets_records_of_it(heard: list[logging.LogRecord]) -> None:
    class Traced(logging.LogRecord):
        trace = "4bf92f"

    logging.setLogRecordFactory(Traced)
    try:
        log_event(logging.getLogger("penstock.test_log_events"), logging.INFO, "request", {"status": 200})
    finally:
        logging.setLogRecordFactory(logging.LogRecord)
    (record,) = heard
    assert isinstance(record, Traced)
    assert vars(record)["fields"] == {"status": 200}
