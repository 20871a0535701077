"""Logs as JSON lines: a record's own words and its `fields`, never a body, a header or a query."""

import json
import logging
import sys
import time
import traceback
from types import TracebackType


class JsonLines(logging.Formatter):
    """One JSON object a line; `extra={"fields": {…}}` adds to it.

    An exception is written as its class and the places it passed. Its message is left out, for a library's may quote
    what a client sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        milliseconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z"
        line = {
            "time": milliseconds,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = _places(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False, default=str)


def configure() -> None:
    """Write the logs of this process to standard error, as an operator runs it; tests leave logging alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def _places(trace: TracebackType | None) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
