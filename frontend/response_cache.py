"""What stands for a request in Triton's response cache: the input `CACHE_KEY` of the ensemble `clef_cached`.

Triton knows a request there by 64 bits, hashed from its input tensors without a secret, and by nothing else. So this
holds what else the answer depends on: the parameters, and the model, since one that is loaded anew finds the cache as
it was. It holds the caller's account too: no answer, and no time that an answer takes, tells one caller what another
has asked. And it is a MAC of the whole request: nobody can make two that Triton takes for one.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence

from frontend.kserve import Parameter

# A larger request, whose MAC takes over a millisecond, is not held against the event loop.
_INLINE_BYTES = 1 << 20


class CacheKeys:
    """Those of one process, whose secret dies with it: frontends do not share answers."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    async def key(
        self, account: str, model: bytes, parameters: Mapping[str, Parameter], body: bytes, images: Sequence[bytes]
    ) -> bytes:
        """32 bytes, equal for what may have one answer. `model` is the MODEL_INFO of the model that is asked."""
        told = json.dumps(parameters, sort_keys=True).encode()
        parts = [account.encode(), model, told, body, *images]
        if sum(map(len, parts)) <= _INLINE_BYTES:
            return self._mac(parts)
        return await asyncio.to_thread(self._mac, parts)

    def _mac(self, parts: Sequence[bytes]) -> bytes:
        mac = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            # Its length before it: no part can run into the next one.
            mac.update(len(part).to_bytes(8, "little"))
            mac.update(part)
        return mac.digest()
