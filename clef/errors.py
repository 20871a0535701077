"""What can go wrong in the model step. The HTTP status of each is the adapter's to send."""


class ClefError(Exception):
    """Base of the errors below. The text is safe to show: it never holds what a request said."""


class ReleaseError(ClefError):
    """A release cannot be served: the text says what is wrong with it and where. Start-up only, never an answer."""


class InvalidRecord(ClefError):
    """A record's tensors contradict each other or the release (400)."""


class DeadlinePassed(ClefError):
    """The job's deadline passed before it was computed (504)."""


class Cancelled(ClefError):
    """The caller gave the job up before it was computed (no one reads the answer)."""


class ComputeFailed(ClefError):
    """The forward pass failed for this record alone; the log has the cause (500)."""


class Unavailable(ClefError):
    """No work is taken: too much is there already, the scheduler is closing, or its device is lost (503)."""


class DeviceLost(ClefError):
    """The device's context is gone: nothing in this process can be computed any more, and the process should end."""
