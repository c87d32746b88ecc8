// Talks to pml with the TypeScript SDK, and prints what happened as one line of JSON.
//
//     node typescript.mjs FOLDER v1|v2 legacy|modern URL TOKEN
//     node typescript.mjs FOLDER v1|v2 legacy|modern COMMAND ARGUMENT...
//
// FOLDER is where the SDKs are installed. crates/pml/tests/clients.rs says what has to come out.

import { createRequire } from "node:module";

const [folder, sdk, era, target, ...rest] = process.argv.slice(2);
const require = createRequire(`${folder}/`);

function load() {
  if (sdk === "v1") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { Client, StdioClientTransport, StreamableHTTPClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport, StreamableHTTPClientTransport };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = load();
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: "test", version: "1" }, sdk === "v1" ? {} : { versionNegotiation: { mode } });
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), {
      requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
    })
  : new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "ignore" });

function execute(code, options) {
  const params = { name: "execute_code", arguments: { code } };
  return sdk === "v1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

async function value(code, options) {
  const result = await execute(code, options);
  if (result.isError) throw new Error(JSON.stringify(result));
  return result.structuredContent.result;
}

await client.connect(transport);
const report = { server: client.getServerVersion().name, instructions: client.getInstructions() };
report.tools = (await client.listTools()).tools.map((tool) => tool.name);

const progress = [];
// The library forgets what was said just before an answer if both arrive at once, so the program waits a bit.
report.value = await value(
  `await mcp.fix.echo({ text: 'a' }); await mcp.fix.echo({ text: 'b' }); const sum = await mcp.fix.add({ a: 20, b: 22 });
  await mcp.fix.sleep({ ms: 300 }); return sum`,
  { onprogress: (step) => progress.push(step) },
);
report.progress = progress;

// Cancelled once the server works on it, which it says by working on more than on the question.
const abort = new AbortController();
const long = execute("await mcp.fix.sleep({ ms: 60000 })", { signal: abort.signal, onprogress: () => {} });
const ended = long.then(
  () => "it was answered",
  (error) => String(error),
);
const counters = () => value("return await mcp.fix.counters({})");
for (;;) {
  const { calls, calls_done = 0 } = await counters();
  if (calls > calls_done + 1) break;
}
abort.abort("enough");
report.cancelled = await ended;
for (let tries = 0; tries < 200 && !(report.counters?.cancelled > 0); tries++) report.counters = await counters();
await client.close();
console.log(JSON.stringify(report));
