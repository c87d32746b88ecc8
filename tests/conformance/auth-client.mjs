// A client for the `auth/*` scenarios of @modelcontextprotocol/conformance: the real pml, with this program
// as the user at the browser.
//
//   conformance client --command "node tests/conformance/auth-client.mjs" --scenario auth/metadata-default
//
// The address of the server is the last argument. `PML_BIN` names the binary (default: target/debug/pml).
// It does what a user would: call a tool; where pml says that a login is needed, run the command that pml
// names; call again. It ends with 0 if the call succeeded.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const MOST_LOGINS = 3;
const PML = resolve(process.env.PML_BIN ?? "target/debug/pml");
const CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json";

const url = process.argv.at(-1);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const folder = await mkdtemp(join(tmpdir(), "pml-conformance-"));

const quoted = (text) => JSON.stringify(text);
const config = [
  "[servers.remote]",
  `url = ${quoted(url)}`,
  "[servers.remote.oauth]",
  `client_metadata_url = ${quoted(CLIENT_DOCUMENT)}`,
];
if (process.env.MCP_CONFORMANCE_SCENARIO?.includes("client-credentials")) config.push('grant = "client_credentials"');
if (context.client_id) config.push(`client_id = ${quoted(context.client_id)}`);
if (context.client_secret) config.push('client_secret = "${CLIENT_SECRET}"');
await writeFile(join(folder, "pml.toml"), config.join("\n"));

/// Runs pml to its end; `watch` sees what it writes to stderr.
function pml(args, watch = () => {}) {
  return new Promise((done) => {
    const env = { ...process.env, HOME: folder, PML_CONFIG: join(folder, "pml.toml"), PML_DATA_DIR: folder, CLIENT_SECRET: context.client_secret ?? "" };
    const child = spawn(PML, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (data) => (stdout += data));
    child.stderr.on("data", (data) => {
      process.stderr.write(data);
      watch((stderr += data));
    });
    child.on("close", (code) => done({ code, stdout, stderr }));
  });
}

/// What the user does: opens the page, which agrees at once and leads back to pml.
async function logIn(options) {
  let opened = false;
  return pml(["server", "login", "remote", "--no-browser", ...options], (stderr) => {
    const address = stderr.match(/^ {2}(https?:\S+)\n/m)?.[1];
    if (address && !opened) {
      opened = true;
      fetch(address).catch((err) => console.error(`the page does not open: ${err}`));
    }
  });
}

/// Lists the tools and calls the first.
async function useServer() {
  const listed = await pml(["tools", "remote", "--json", "--refresh"]);
  if (listed.code !== 0) return listed;
  const [tool] = JSON.parse(listed.stdout).tools;
  if (!tool) return listed;
  return pml(["run", "-e", `return await mcp.remote[${quoted(tool.name)}]({})`]);
}

let used = await useServer();
for (let logins = 0; used.code !== 0 && logins < MOST_LOGINS; logins += 1) {
  const wanted = used.stderr.match(/`pml server login remote([^`]*)`/);
  if (!wanted) break;
  const login = await logIn(wanted[1].split(" ").filter(Boolean));
  if (login.code !== 0) break;
  used = await useServer();
}
await rm(folder, { recursive: true });
process.exitCode = used.code === 0 ? 0 : 1;
