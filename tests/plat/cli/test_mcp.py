"""`plat mcp`, driven by the client of the official SDK: plan, sweep, wait, verdict; what it must refuse."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

FILE = """
title: Which policy climbs higher?
base: {trainer: toy_hill_climber, climb.games: 20, climb.iterations: 2}
matrix:
  policy: [wild, climber]
  seed: range(6)
claims:
  - {id: higher, check: mean_delta_positive, pair: policy, baseline: wild, treatment: climber, expect: shown}
"""
READING = {"plan", "runs", "claims", "wait", "why", "logs"}


def driven(steps, folder, home, *options):
    """Return what the coroutine `steps` returns, called with a function that calls a tool: (is error, JSON)."""
    from mcp import Client, StdioServerParameters

    arguments = ["-m", "plat", "mcp", str(folder), "--home", str(home), *options]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def session():
        async with Client(server) as client:

            async def call(name, **arguments):
                result = await client.call_tool(name, arguments, read_timeout_seconds=120)
                return result.is_error, result.structured_content or result.content[0].text

            return await steps(client, call)

    return asyncio.run(session())


def test_from_a_plan_to_a_verdict(spec, toy, home, tmp_path):
    spec(FILE, "climb.yaml")

    async def steps(client, call):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == READING | {"sweep", "judge", "report", "cancel"}
        _, plan = await call("plan", files=["climb.yaml"])
        assert plan["counts"]["missing"] == 12
        is_error, started = await call("sweep", files=["climb.yaml"])
        assert not is_error and os.path.exists(started["log"])
        _, waited = await call("wait", files=["climb.yaml"], seconds=90)
        assert waited["reached"] and waited["counts"] == {"done": 12}
        _, found = await call("runs", files=["climb.yaml"], metrics=["val/games_won"])
        assert all(run["metrics"]["val/games_won"] is not None for run in found["runs"])
        _, why = await call("why", run=found["runs"][0]["id"])
        assert why["id"] == found["runs"][0]["id"]
        _, claims = await call("claims", files=["climb.yaml"])
        return claims["claims"]

    (claim,) = driven(steps, tmp_path, home, "--allow-runs")
    assert claim["id"] == "higher" and claim["reason"] and claim["as_expected"] == (claim["verdict"] == "shown")


def test_what_it_refuses(spec, toy, home, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    outside = spec(FILE, "outside.yaml")
    (folder / "link.yaml").symlink_to(outside)

    async def steps(client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == READING
        told = []
        for files in (["../outside.yaml"], [str(outside)], ["link.yaml"], ["--home=/tmp"]):
            told.append(await call("plan", files=files))
        told.append(await call("plan", files=["none.yaml"]))
        told.append(await call("why", run="--home=/tmp"))
        told.append(await call("why", run="a\0b"))
        wrong = [
            await call("plan", files=3),
            await call("wait", files=[], until="never"),
            await call("sweep", files=["outside.yaml"]),
        ]
        return told, wrong

    told, wrong = driven(steps, folder, home)
    assert all(is_error and found["error"]["fix"] for is_error, found in told)
    assert all(is_error and text for is_error, text in wrong)
    assert not (home / "runs").exists()


def test_a_folder_that_is_not_there(plat, tmp_path):
    code, _, err = plat("mcp", tmp_path / "nowhere")
    assert code == 2 and "no such folder" in err
