"""What a request came to, for its access line, the metrics and its row in the usage log."""

import json
from collections.abc import Sequence
from typing import Any

from frontend.context import CLIENT_GONE
from frontend.decision import Decision
from frontend.metrics import Metrics
from frontend.usage import UsageLog, UsageRow


class Accounting:
    """Keeps the books when a request has its answer, so that no answer waits for them."""

    def __init__(self, metrics: Metrics, usage: UsageLog) -> None:
        self._metrics = metrics
        self._usage = usage

    def finished(self, fields: dict[str, Any], decisions: Sequence[Decision]) -> None:
        """A request has ended: adds what its decisions came to to `fields`, those of its access line.

        A request that was for no decision leaves no row.
        """
        for decision in decisions:
            self._decided(fields, decision)
        if len(decisions) == 1 and not decisions[0].cached:
            fields.update({f"{step}_ms": round(value, 3) for step, value in decisions[0].times_ms.items()})
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

    def _decided(self, fields: dict[str, Any], decision: Decision) -> None:
        answer = json.loads(decision.response)
        tokens = answer["usage"]["input_tokens"]
        _add(fields, "questions", len(answer["answers"]))
        _add(fields, "tokens", tokens)
        _add(fields, "images", decision.images)
        fields["model"] = decision.model.name
        fields["batch_size"] = max(decision.batch_size, fields.get("batch_size", 0))
        self._metrics.tokens.inc(tokens)
        if decision.cached:
            _add(fields, "cached", 1)
            self._metrics.cached.inc()
        else:
            self._metrics.computed(decision.times_ms, decision.batch_size)


def _add(fields: dict[str, Any], name: str, number: int) -> None:
    fields[name] = fields.get(name, 0) + number
