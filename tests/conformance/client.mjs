// The client that the conformance suite is run against: the real pml.
//
//     client.mjs URL
//
// The suite starts this once per scenario, with the address of its server as the argument and the
// scenario's name in MCP_CONFORMANCE_SCENARIO. It writes a pml.toml with that server in it, and has
// pml do what the scenario wants to see: list tools, and call them from a program. Where a user has to
// be asked, pml is started as a gateway and the official SDK is the user's client. Scenarios with a login
// are auth-client.mjs's.
//
// Whether it was done right is for the suite to say: this exits with 0 if pml did.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const repository = join(here, '..', '..');
const pml = process.env.PML_BIN ?? join(repository, 'target/debug/pml');
const sdk = join(repository, '.test-env/clients/package.json');

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');

// What each scenario needs. One that is not here only has its tools listed.
const scenarios = {
  tools_call: () => call('add_numbers', { a: 5, b: 3 }),
  'sse-retry': () => call('test_reconnection', {}),
  'http-standard-headers': async () => {
    await call('test_headers', {});
    await call('my-hyphenated-tool', {});
  },
  'http-custom-headers': async () => {
    for (const { name, arguments: given } of context.toolCalls) {
      // An argument may be null or missing. pml refuses null where the schema wants something else.
      await call(name, Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)));
    }
  },
  'http-invalid-tool-headers': async () => {
    // Whatever pml lists it must be ready to call.
    const given = { region: 'eu', value: 'x', field1: 'x', field2: 'y', data: {}, items: [], nil: null, score: 1 };
    for (const tool of await list()) {
      const wanted = Object.keys(tool.inputSchema.properties ?? {});
      await call(tool.name, Object.fromEntries(wanted.map((name) => [name, given[name] ?? null])));
    }
  },
  'json-schema-ref-no-deref': () => call('lookup_user', { id: 'a-1' }),
  'json-schema-2020-12-preservation': async () => {
    const tool = (await list()).find(({ name }) => name === 'json_schema_2020_12_tool');
    await call('json_schema_echo', { schema: tool.inputSchema });
  },
  'elicitation-sep1034-client-defaults': () => callAsUser('test_client_elicitation_defaults'),
  'sep-2322-client-request-state': () =>
    callAsUser('test_mrtr_echo_state', 'test_mrtr_unrelated', 'test_mrtr_no_state', 'test_mrtr_no_result_type'),
};

const login = join(here, 'auth-client.mjs');
const folder = await mkdtemp(join(tmpdir(), 'pml-conformance-'));
try {
  if (scenario.startsWith('auth/') && existsSync(login)) {
    // It reads the same arguments and variables.
    await import(pathToFileURL(login));
  } else {
    await writeFile(join(folder, 'pml.toml'), `[servers.suite]\nurl = ${JSON.stringify(url)}\n`);
    await list();
    await scenarios[scenario]?.();
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** The tools of the server, as pml knows them. */
async function list() {
  return JSON.parse(await run('tools', '--refresh', '--json')).tools;
}

/** Has a program call one tool. A tool that answers with an error was called all the same. */
async function call(tool, given) {
  const program = `try { return await mcp.suite[args.tool](args.given) }
    catch (error) { if (error.code === 'TOOL_ERROR') return error.message; throw error }`;
  await run('run', '--eval', program, '--args', JSON.stringify({ tool, given }));
}

/** Has a user's client call tools through the gateway. Whatever the user is asked, the defaults are fine. */
async function callAsUser(...tools) {
  const load = createRequire(sdk);
  const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
  const { ElicitRequestSchema } = load('@modelcontextprotocol/sdk/types.js');

  const capabilities = { elicitation: { form: { applyDefaults: true } } };
  const client = new Client({ name: 'conformance-user', version: '1.0.0' }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: {} }));
  const args = ['serve', '--expose', 'passthrough', '--plain-names', ...settings()];
  await client.connect(new StdioClientTransport({ command: pml, args, env: environment(), stderr: 'inherit' }));
  try {
    for (const name of tools) await client.callTool({ name, arguments: {} });
  } finally {
    await client.close();
  }
}

/** Runs pml, and returns what it printed. */
function run(command, ...options) {
  return new Promise((resolve, reject) => {
    const stdio = ['ignore', 'pipe', 'pipe'];
    const child = spawn(pml, [command, ...options, ...settings()], { cwd: folder, env: environment(), stdio });
    const printed = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr']) {
      child[stream].setEncoding('utf8').on('data', (text) => (printed[stream] += text));
    }
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(printed.stdout);
      else reject(new Error(`pml ${command} ${options.join(' ')}\nended with ${code}\n${printed.stdout}${printed.stderr}`));
    });
  });
}

/** Nothing of the machine that this runs on. */
function settings() {
  return ['--config', join(folder, 'pml.toml'), '--data-dir', join(folder, 'data')];
}

function environment() {
  return { PATH: process.env.PATH, HOME: folder };
}
