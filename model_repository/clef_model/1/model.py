"""Triton's adapter of `clef`: hands every request to the scheduler at once and answers it when its scores are there.

`execute` returns before the answers: each request is answered through its response sender by the scheduler's
thread, so that what waits is always in one place, ordered by `clef.scheduler`, and a request that arrives while the
model is busy can be in the very next micro-batch.

A request without tokens and with the parameter `cancel` is no request: it gives up the waiting one whose
`cancel_token` it names. That is how a client that left reaches this step, since Triton 2.51 does not pass an ensemble's
cancellation on. Its answer's `BATCH_SIZE` is the number of requests that are with this step, heartbeats aside: by that
a frontend that waits tells load from an outage.
"""

from __future__ import annotations

import gc
import os

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.call import HEARTBEAT, Call
from adapter.in_flight import InFlight
from adapter.metrics import Metrics
from adapter.scores import reply, tensors
from adapter.shared_memory import bounded, free_bytes
from adapter.tensors import parameters, read
from clef.batch import split_records
from clef.scheduler import Job, Scheduler, Scores
from clef.settings import read_settings
from clef.start import start
from preprocess.settings import Settings, deadline

DEVICE_LOST_EXIT_CODE = 70
NO_LOGITS = np.empty(0, dtype=np.float32)


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        on_gpu = args["model_instance_kind"] == "GPU"
        settings = bounded(read_settings(), Settings(), free_bytes())
        model, warmup_s = start(settings, f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu")
        self._scheduler = Scheduler(model, settings, on_device_lost=lambda: os._exit(DEVICE_LOST_EXIT_CODE))
        self._in_flight = InFlight()
        self._metrics = Metrics(model, self._scheduler, warmup_s, args["model_instance_name"])
        # What is loaded now stays: the collector need not look through a library's million objects under a request.
        gc.freeze()

    def execute(self, requests: list[pb_utils.InferenceRequest]) -> None:
        for request in requests:
            self._submit(request)

    def finalize(self) -> None:
        self._scheduler.close()
        self._metrics.close()

    def _submit(self, request: pb_utils.InferenceRequest) -> None:
        call = Call("clef_model", request)
        answer = reply(call)
        try:
            told, inputs = parameters(request), read(request)
            if "cancel" in told and not len(inputs["INPUT_IDS"]):
                self._scheduler.cancel(str(told["cancel"]))
                call.answer(tensors(Scores(NO_LOGITS, 0, 0, batch_size=self._in_flight.count)), log=False)
                return
            if call.id != HEARTBEAT:
                answer = self._in_flight.until(answer)
            records = split_records(inputs)
            token = str(told["cancel_token"]) if "cancel_token" in told else None
            self._scheduler.submit(Job(records, answer, deadline(told), token))
        except Exception as error:  # the process's boundary: one request's failure is its own
            answer(error)
