import socket

import pytest

from launch.errors import LaunchError
from launch.ports import check_ports
from launch.settings import LaunchSettings, read_settings
from tests.stack.running import free_ports


def test_free_ports_pass() -> None:
    check_ports({f"PORT_{i}": ("127.0.0.1", port) for i, port in enumerate(free_ports(4))})


def test_each_busy_port_is_named_with_the_variable_that_moves_it_and_a_free_one() -> None:
    busy, free = free_ports(2)
    with socket.create_server(("127.0.0.1", busy)), pytest.raises(LaunchError) as caught:
        check_ports({"FRONTEND_PORT": ("127.0.0.1", busy), "TRITON_HTTP_PORT": ("127.0.0.1", free)})
    message = str(caught.value)
    assert f"Port {busy} is in use" in message
    assert "TRITON_HTTP_PORT" not in message
    suggested = int(message.rpartition("FRONTEND_PORT=")[2].rstrip("."))
    check_ports({"FRONTEND_PORT": ("127.0.0.1", suggested)})


def test_a_port_taken_on_every_address_is_busy_on_loopback() -> None:
    [port] = free_ports(1)
    with socket.create_server(("0.0.0.0", port)), pytest.raises(LaunchError, match="in use"):
        check_ports({"FRONTEND_PORT": ("127.0.0.1", port)})


def test_two_settings_with_one_port() -> None:
    address = ("127.0.0.1", free_ports(1)[0])
    with pytest.raises(LaunchError, match="FRONTEND_PORT and TRITON_HTTP_PORT are both"):
        check_ports({"FRONTEND_PORT": address, "TRITON_HTTP_PORT": address})


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_a_host_that_is_not_here(host: str) -> None:
    with pytest.raises(LaunchError, match=f"FRONTEND_HOST={host} is no address of this machine"):
        check_ports({"FRONTEND_PORT": (host, free_ports(1)[0])})


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_GRPC_PORT", "70000")
    with pytest.raises(LaunchError, match="TRITON_GRPC_PORT"):
        read_settings()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("192.0.2.1", "http://192.0.2.1:8080"),
    ],
)
def test_the_address_for_a_client_on_this_machine(host: str, url: str) -> None:
    assert LaunchSettings(frontend_host=host, frontend_port=8080).url == url
