"""Whether the ports are free, asked before anything starts."""

import socket
from collections.abc import Mapping

from launch.errors import LaunchError


def check_ports(ports: Mapping[str, tuple[str, int]]) -> None:
    """`ports`: the address (host, port) by the variable that moves it. Raises LaunchError naming each that is taken."""
    problems = []
    owners: dict[int, str] = {}
    for variable, (host, port) in ports.items():
        if port in owners:
            problems.append(f"{owners[port]} and {variable} are both {port}: give each its own port.")
        elif reason := _why_not(host, port):
            problems.append(f"{reason} {variable} moves it, for instance {variable}={_free_port(host, set(owners))}.")
        owners[port] = variable
    if problems:
        raise LaunchError("\n".join(problems))


def _why_not(host: str, port: int) -> str | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections still fade away counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            return f"Port {port} may not be opened by this user."
        except socket.gaierror:
            raise LaunchError(f"FRONTEND_HOST={host} is no address of this machine.") from None
        except OSError as error:
            if error.errno == 99:  # EADDRNOTAVAIL
                raise LaunchError(f"FRONTEND_HOST={host} is no address of this machine.") from None
            return f"Port {port} is in use by another program."
    return None


def _free_port(host: str, avoid: set[int]) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port
