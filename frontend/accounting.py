"""What a request came to, for the metrics and for its row in the usage log."""

import json
from collections.abc import Mapping
from typing import Any

from frontend.context import CLIENT_GONE
from frontend.decision import Decision
from frontend.metrics import Metrics
from frontend.usage import UsageLog, UsageRow


class Accounting:
    """Sums up in the fields of the access line, which end with the request."""

    def __init__(self, metrics: Metrics, usage: UsageLog) -> None:
        self._metrics = metrics
        self._usage = usage

    def decided(self, fields: dict[str, Any], decision: Decision) -> None:
        """Add a decision to its request."""
        answer = json.loads(decision.response)
        tokens = answer["usage"]["input_tokens"]
        _add(fields, "questions", len(answer["answers"]))
        _add(fields, "tokens", tokens)
        _add(fields, "images", decision.images)
        fields["model"] = decision.model.name
        fields["batch_size"] = max(decision.batch_size, fields.get("batch_size", 0))
        times_ms = {
            "queue": decision.queue_ms,
            "preprocess": decision.preprocess_ms,
            "compute": decision.compute_ms,
            "postprocess": decision.postprocess_ms,
        }
        self._metrics.decided(times_ms, decision.batch_size, tokens)

    def finished(self, fields: Mapping[str, Any]) -> None:
        """A request has ended. Those that asked for no decision leave no row."""
        dialect = fields.get("dialect")
        if dialect is None:
            return
        status = fields["status"] or CLIENT_GONE
        self._metrics.answered(dialect, status, fields["ms"] / 1000)
        self._usage.record(
            UsageRow(
                dialect=dialect,
                status=status,
                milliseconds=fields["ms"],
                key_name=fields.get("key"),
                model=fields.get("model"),
                questions=fields.get("questions"),
                images=fields.get("images"),
                tokens=fields.get("tokens"),
                batch_size=fields.get("batch_size"),
            )
        )


def _add(fields: dict[str, Any], name: str, number: int) -> None:
    fields[name] = fields.get(name, 0) + number
