"""What Triton's HTTP and gRPC ports keep closed. Of Python's standard library alone, for the image's watcher too."""

import secrets

# Nothing here uses them, and whoever reaches the port could map memory, load models or write logs with them.
CLOSED = "model-repository,shared-memory,trace,logging"


def restrictions() -> list[str]:
    """The options of tritonserver; inference, health, metadata, configuration and statistics stay open."""
    # A key that nobody knows closes an interface; the server has no option to leave it out.
    closed = f"{CLOSED}:closed={secrets.token_hex()}"
    return [f"--http-restricted-api={closed}", f"--grpc-restricted-protocol={closed}"]
