"""Talks to pml with the Python SDK, and prints what happened as one line of JSON.

    python python_sdk.py legacy|modern URL TOKEN
    python python_sdk.py legacy|modern COMMAND ARGUMENT...

crates/pml/tests/clients.rs says what has to come out.
"""

import json
import os
import sys

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def main(era, target, *rest):
    if target.startswith("http"):
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {rest[0]}"})
        server = streamable_http_client(target, http_client=http)
    else:
        server = StdioServerParameters(command=target, args=list(rest), env=dict(os.environ))
    async with Client(server, mode="legacy" if era == "legacy" else "auto") as client:
        assert (client.protocol_version == "2026-07-28") == (era == "modern"), client.protocol_version
        print(json.dumps(await talk(client)))


async def talk(client):
    listed = await client.list_tools()
    report = {"server": client.server_info.name, "instructions": client.instructions, "progress": []}
    report["tools"] = [tool.name for tool in listed.tools]

    async def heard(progress, total, message):
        report["progress"].append({"progress": progress, "message": message})

    code = """await mcp.fix.echo({ text: 'a' }); await mcp.fix.echo({ text: 'b' });
        const sum = await mcp.fix.add({ a: 20, b: 22 }); await mcp.fix.sleep({ ms: 300 }); return sum"""
    report["value"] = await value(client, code, heard)

    # Cancelled once the server works on it, which it says by working on more than on the question.
    report["cancelled"] = "it was answered"
    async with anyio.create_task_group() as tasks:

        async def run():
            try:
                await client.call_tool("execute_code", {"code": "await mcp.fix.sleep({ ms: 60000 })"})
            except anyio.get_cancelled_exc_class():
                report["cancelled"] = "cancelled"
                raise

        tasks.start_soon(run)
        while True:
            counted = await counters(client)
            if counted["calls"] > counted.get("calls_done", 0) + 1:
                break
        tasks.cancel_scope.cancel()
    for _ in range(200):
        report["counters"] = await counters(client)
        if report["counters"]["cancelled"] > 0:
            break
    return report


async def counters(client):
    return await value(client, "return await mcp.fix.counters({})")


async def value(client, code, heard=None):
    result = await client.call_tool("execute_code", {"code": code}, progress_callback=heard)
    if result.is_error:
        raise RuntimeError(result)
    return result.structured_content["result"]


anyio.run(main, *sys.argv[1:])
