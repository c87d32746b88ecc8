// Asks Codex, as an editor would, for the MCP servers it is connected to, and prints its answer.
//
//     node codex.mjs CODEX
//
// Codex connects to them for that; it needs no account and no network.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const codex = spawn(process.argv[2], ["app-server"], { stdio: ["pipe", "pipe", "ignore"] });
const send = (message) => codex.stdin.write(`${JSON.stringify(message)}\n`);
send({ id: 1, method: "initialize", params: { clientInfo: { name: "test", title: "test", version: "1" } } });
for await (const line of createInterface({ input: codex.stdout })) {
  const message = JSON.parse(line);
  if (message.id === 1) {
    send({ method: "initialized" });
    send({ id: 2, method: "mcpServerStatus/list", params: {} });
  }
  if (message.id === 2) {
    console.log(JSON.stringify(message.result ?? message.error));
    codex.stdin.end();
  }
}
