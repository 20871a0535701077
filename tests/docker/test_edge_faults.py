"""What the edge's clients see of a fault behind it: nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.docker.edge import Edge, Replica
from tests.docker.load import Load

pytestmark = pytest.mark.usefixtures("all_well_again")


async def test_a_killed_frontend_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[0].frontend.kill()
        await load.answered(40)
        assert running_edge.servers_up() == 1
        replicas[0].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
        await load.answered(20)
    assert load.failures == []


async def test_a_killed_triton_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[1].triton.kill()
        await load.answered(40)
        await asyncio.to_thread(running_edge.wait_for, 1, 10)
        replicas[1].triton.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
        await load.answered(20)
    assert load.failures == []


async def test_a_killed_step_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[0].stub("clef_model").kill()
        await load.answered(40)
        await asyncio.to_thread(running_edge.wait_for, 1, 10)
        replicas[0].triton.kill()
        replicas[0].triton.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []


async def test_a_frontend_that_is_told_to_stop_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        assert await asyncio.to_thread(replicas[1].frontend.stop) == 0
        await load.answered(20)
        replicas[1].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []


async def test_a_body_near_the_buffers_size_is_asked_again_too(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge, padding=120_000) as load:
        await load.answered(10)
        replicas[0].frontend.kill()
        await load.answered(20)
        replicas[0].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []
