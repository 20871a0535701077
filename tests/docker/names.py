"""A name server that knows one name, as Docker's knows a service: every running container's address."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_IS_ANSWER, _A, _IN, _TTL_S = 0x8180, 1, 1, 1


@contextmanager
def name_server(addresses: list[str]) -> Iterator[str]:
    """`host:port` of a server that answers any question for A records with `addresses`, as they are at the time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_serve, args=(sock, addresses))
        thread.start()
        try:
            yield f"127.0.0.1:{sock.getsockname()[1]}"
        finally:
            sock.sendto(b"", sock.getsockname())
            thread.join()


def _serve(sock: socket.socket, addresses: list[str]) -> None:
    while True:
        query, sender = sock.recvfrom(4096)
        if not query:
            return
        sock.sendto(_answer(query, list(addresses)), sender)


def _answer(query: bytes, addresses: list[str]) -> bytes:
    end = query.index(b"\0", 12) + 5
    question = query[12:end]
    wanted = struct.unpack(">H", question[-4:-2])[0]
    found = [socket.inet_aton(address) for address in addresses] if wanted == _A else []
    head = query[:2] + struct.pack(">HHHHH", _IS_ANSWER, 1, len(found), 0, 0)
    # 0xC00C points back to the name in the question.
    records = (struct.pack(">HHHIH", 0xC00C, _A, _IN, _TTL_S, 4) + address for address in found)
    return head + question + b"".join(records)
