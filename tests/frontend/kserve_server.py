"""A real gRPC server that speaks the KServe methods which the frontend calls, in front of a FakeEnsemble.

Like Triton's, its steps can also be asked one by one, and each can be dead: killed, or hung.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from postprocess.answers import answer
from preprocess.errors import Overloaded, ServiceError
from preprocess.plan import Plan
from tests.frontend.fakes import FakeEnsemble

STEPS = ("clef_preprocess", "clef_model", "clef_postprocess")
_CODES = {500: grpc.StatusCode.INTERNAL, 503: grpc.StatusCode.UNAVAILABLE}


class Kserve(service_pb2_grpc.GRPCInferenceServiceServicer):
    """`failure` answers every inference with that gRPC status and text; `latency_s` is the model step's for each
    answer, and not for a cancellation; `held` counts what it has meanwhile, `cancelled` what was given up by its token,
    and `broken_off` the calls whose caller left, which may end Triton. `dead` steps fail what reaches them, after
    `death_s`. The first step takes `read_s` for each request, one after another. `clef_cached` keeps every answer, and
    knows it by the request's tensors alone.
    """

    def __init__(self, ensemble: FakeEnsemble) -> None:
        self.ensemble = ensemble
        self.is_ready = True
        self.latency_s = 0.0
        self.failure: tuple[grpc.StatusCode, str] | None = None
        self.leave_out: str | None = None
        self.requests: list[service_pb2.ModelInferRequest] = []
        self.cancelled = 0
        self.held = 0
        self.dead: set[str] = set()
        self.death_s = 0.0
        self.read_s = 0.0
        self.answers = 0
        self.hits = 0
        self._kept: dict[tuple[bytes, ...], service_pb2.ModelInferResponse] = {}
        self.broken_off = 0
        self._reading = asyncio.Lock()
        self._waiting: dict[object, asyncio.Event] = {}

    async def ServerReady(self, request, context):
        return service_pb2.ServerReadyResponse(ready=True)

    async def ModelReady(self, request, context):
        return service_pb2.ModelReadyResponse(ready=self.is_ready and request.name == "clef")

    async def ModelInfer(self, request, context):
        self.requests.append(request)
        if self.failure is not None:
            await context.abort(*self.failure)
        parameters = {
            name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in request.parameters.items()
        }
        tensors = tuple(sorted(request.raw_input_contents))
        if request.model_name == "clef_cached" and tensors in self._kept:
            self.hits += 1
            return self._kept[tensors]
        steps = STEPS if request.model_name in ("clef", "clef_cached") else (request.model_name,)
        for step in steps:
            if step in self.dead:
                await asyncio.sleep(self.death_s)
                await context.abort(grpc.StatusCode.INTERNAL, f"Failed to process the request(s) for '{step}'")
            if step == "clef_preprocess" and self.read_s:
                async with self._reading:
                    await asyncio.sleep(self.read_s)
            if step == "clef_model" and "cancel" not in parameters and await self._given_up(request, parameters):
                await context.abort(grpc.StatusCode.UNAVAILABLE, Overloaded("given up by its caller").to_json())
        inputs = {
            tensor.name: content for tensor, content in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        return await getattr(self, f"_{request.model_name}")(request, inputs, parameters, context)

    async def ModelStatistics(self, request, context):
        assert not request.name
        response = service_pb2.ModelStatisticsResponse()
        for name, hits, computed in (("clef", 0, self.answers), ("clef_cached", self.hits, 0), ("clef_model", 0, 99)):
            stats = response.model_stats.add(name=name).inference_stats
            stats.success.count, stats.cache_hit.count = hits + computed, hits
        return response

    async def _given_up(self, request, parameters) -> bool:
        counts, token = int(request.id != "heartbeat"), parameters.get("cancel_token")
        self.held += counts
        given_up = self._waiting[token] = asyncio.Event()
        try:
            async with asyncio.timeout(self.latency_s):
                await given_up.wait()
            self.cancelled += 1
            return True
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        finally:
            self.held -= counts
            del self._waiting[token]

    async def _clef_model(self, request, inputs, parameters, context):
        assert list(parameters) == ["cancel"], "nobody else asks the model step itself"
        if parameters["cancel"] in self._waiting:
            self._waiting[parameters["cancel"]].set()
        return response_to(request, {"BATCH_SIZE": ("INT32", struct.pack("<i", self.held))})

    async def _clef_preprocess(self, request, inputs, parameters, context):
        tensors = self.ensemble.preprocess(*elements(inputs["REQUEST"]), None, parameters)
        contents = {
            "PLAN": ("BYTES", element(bytes(tensors["PLAN"][0]))),
            "QUESTIONS": ("INT32", tensors["QUESTIONS"].tobytes()),
        }
        return response_to(request, contents)

    async def _clef_postprocess(self, request, inputs, parameters, context):
        (plan,) = elements(inputs["PLAN"])
        response, _ = answer(Plan.from_json(plan), np.frombuffer(inputs["LOGITS"], dtype=np.float32))
        return response_to(request, {"RESPONSE": ("BYTES", element(response))})

    async def _clef_cached(self, request, inputs, parameters, context):
        response = await self._clef(request, inputs, parameters, context)
        return self._kept.setdefault(tuple(sorted(request.raw_input_contents)), response)

    async def _clef(self, request, inputs, parameters, context):
        given = {name: elements(content) for name, content in inputs.items()}
        for tensor in request.inputs:
            assert tensor.datatype == "BYTES" and list(tensor.shape) == [1, len(given[tensor.name])]
        try:
            raw = self.ensemble(given["REQUEST"][0], given.get("IMAGES", []), parameters)
        except ServiceError as error:
            code = _CODES.get(error.status, grpc.StatusCode.INVALID_ARGUMENT)
            await context.abort(code, f"in ensemble 'clef', {error.to_json()}")
        contents = {
            "RESPONSE": ("BYTES", element(raw.response)),
            "MODEL_INFO": ("BYTES", element(raw.model.raw)),
            "PREPROCESS_MS": ("FP32", struct.pack("<f", raw.preprocess_ms)),
            "QUEUE_MS": ("FP32", struct.pack("<f", raw.queue_ms)),
            "COMPUTE_MS": ("FP32", struct.pack("<f", raw.compute_ms)),
            "POSTPROCESS_MS": ("FP32", struct.pack("<f", raw.postprocess_ms)),
            "BATCH_SIZE": ("INT32", struct.pack("<i", raw.batch_size)),
            "IMAGE_GRID": ("INT32", struct.pack("<3i", 1, 16, 16) * raw.images),
            "IMAGE_COUNT": ("INT32", struct.pack("<i", raw.images)),
            "COMPUTED_FOR": ("BYTES", element(parameters["cancel_token"].encode())),
        }
        contents.pop(self.leave_out, None)
        self.answers += 1
        return response_to(request, contents)


def response_to(request, contents):
    """The outputs that the request names, of these."""
    response = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    for name in (output.name for output in request.outputs if output.name in contents):
        response.outputs.add(name=name, datatype=contents[name][0], shape=[1, 1])
        response.raw_output_contents.append(contents[name][1])
    return response


def element(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def elements(content: bytes) -> list[bytes]:
    """The elements of a BYTES tensor."""
    found = []
    while content:
        (length,) = struct.unpack_from("<I", content)
        found.append(content[4 : 4 + length])
        content = content[4 + length :]
    return found


@asynccontextmanager
async def serving(kserve: Kserve, port: int = 0) -> AsyncIterator[int]:
    """The port that it listens on."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(kserve, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)
