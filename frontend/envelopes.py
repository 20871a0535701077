"""Which dialect answers a path's errors: those of a route, and those that come before one is found."""

from frontend import errors, ollaya, openai_decisions, openrouter, workers_ai
from frontend.errors import Render

# The first prefix that fits.
_BY_PREFIX: tuple[tuple[str, Render], ...] = (
    ("/client/v4/", workers_ai.render),
    ("/api/alpha/", openrouter.render),
    ("/api/v1/", openrouter.render_both),
    ("/api/", ollaya.render),
    ("/v1/decisions", openai_decisions.render_unread),
)


def render_for(path: str) -> Render:
    """The envelope of the errors under a path."""
    return next((render for prefix, render in _BY_PREFIX if path.startswith(prefix)), errors.render)
