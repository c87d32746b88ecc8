// The official SDK's client, making ten calls in a row. Started by benches/upstream.rs in a folder with
// the SDK; prints the milliseconds of each round whenever it reads a line.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [modules, server] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", path)).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");

const client = new Client({ name: "direct", version: "1" });
await client.connect(new StdioClientTransport({ command: process.execPath, args: [server], stderr: "ignore" }));
console.log("ready");
for await (const _ of createInterface({ input: process.stdin })) {
  const begun = performance.now();
  for (let i = 0; i < 10; i++) await client.callTool({ name: "echo", arguments: { message: "hello" } });
  console.log(performance.now() - begun);
}
await client.close();
