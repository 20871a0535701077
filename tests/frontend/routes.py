"""Every route that decides."""

from __future__ import annotations

from tests.frontend.running import NOUL

OPENAI = {"input": "All is well.", "questions": [{"type": "predicate", "instructions": "Is a service down?"}]}
# Every route that decides, with a body of its own, and what the log and the metrics call it.
ROUTES = {
    "/v1/systemone": (NOUL, "systemone"),
    "/api/v1/systemone": (NOUL, "systemone"),
    "/v1/systemone/batch": ([NOUL], "batch"),
    "/v1/decisions": (OPENAI, "openai"),
    "/api/alpha/decisions": (NOUL, "openrouter"),
    "/client/v4/accounts/me/ai/run/@cf/cloudflare/clef-flash": (NOUL, "workers_ai"),
    "/api/decide": (NOUL, "ollaya"),
}
