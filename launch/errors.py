"""What the launcher tells a person when something that may happen has happened."""


class LaunchError(Exception):
    """A sentence that says what is wrong and what to do about it; the command line prints it and exits with 1."""
