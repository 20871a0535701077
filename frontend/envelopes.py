"""Which dialect answers a path's errors: those of a route, and those that come before one is found."""

from frontend import errors
from frontend.errors import Render

# The first prefix that fits.
_BY_PREFIX: tuple[tuple[str, Render], ...] = (("/", errors.render),)


def render_for(path: str) -> Render:
    """The envelope of the errors under a path."""
    return next((render for prefix, render in _BY_PREFIX if path.startswith(prefix)), errors.render)
