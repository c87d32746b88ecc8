
/** What was passed with `--args`. */
declare const args: any;

declare const pml: typeof import("pml").default;

declare module "pml" {
  /** How a call is made. */
  export interface CallOptions {
    /** Gives the text of the result, also if it is JSON, which is otherwise read. */
    raw?: boolean;
  }

  /** Whether a call that failed may have happened: `unknown` if it was sent and not answered. */
  export type CallOutcome = "not_sent" | "unknown" | "answered";

  /** How a call went. */
  export type CallAnswer =
    | { success: true; result: any }
    | { success: false; error: { code: string; message: string; tool: string; retryable: boolean; outcome: CallOutcome; data?: any; rpcCode?: number } };

  /** A tool that was found. */
  export interface FoundTool {
    /** `server:tool`, for `callTool`. */
    name: string;
    description: string | null;
    /** Null if it is very large. */
    inputSchema: any;
    /** How it is called. */
    signature: string;
    /** How well it fits, from 0 to 1. */
    score: number;
    /** Says so, if the tool is not what it was when it was first seen. */
    changed?: string;
  }

  /**
   * Finds tools by what they do, best first.
   * @param query At most 500 characters.
   * @param limit How many at most, 1 to 50; default 10.
   * @param threshold Least score, 0 to 1; default 0.1.
   */
  export function searchTools(query: string, limit?: number, threshold?: number): Promise<FoundTool[]>;

  /** Calls a tool by its name, `server:tool`. Does not throw if the tool fails. */
  export function callTool(name: string, args?: object, options?: CallOptions): Promise<CallAnswer>;

  /** Calls tools at the same time. The answers are in the order of the calls. */
  export function callToolsBatch(calls: ({ name: string; args?: object } & CallOptions)[]): Promise<CallAnswer[]>;

  /** A task of a workflow. */
  export interface WorkflowTask {
    id: string;
    /** `server:tool`; or `capability` or `code` instead. */
    tool?: string;
    capability?: string;
    code?: string;
    /** `"$OUTPUT[id].path"` is the value of another task, `"${$OUTPUT[id].path}"` its text within a longer one. */
    args?: object;
    dependsOn?: string[];
    when?: object;
    forEach?: string | any[] | { in: string | any[]; concurrency?: number };
    timeout_ms?: number;
    retry?: number | { times: number; backoff_ms?: number };
  }

  /** How a workflow went. */
  export interface WorkflowOutcome {
    status: "success" | "error";
    /** The results of the tasks that succeeded, by their ids. */
    results: Record<string, any>;
    tasks: { id: string; status: "success" | "error" | "skipped" | "not_run"; duration_ms: number; error?: any }[];
    [key: string]: any;
  }

  /** Runs tasks that depend on each other. Rejects if the workflow cannot run as it is written; then nothing has run. */
  export function executeWorkflow(workflow: { tasks: WorkflowTask[]; name?: string; intent?: string }, args?: object): Promise<WorkflowOutcome>;
  /** Suggests a capability or a plan for an intent, and runs nothing; `{ accept, args }` runs a plan. */
  export function executeWorkflow(asked: string | { accept: string; args?: object } | { intent: string }): Promise<any>;

  /**
   * A result that was too long to be shown, of an earlier program of the same client.
   * @param id As named in the answer, `r_…`.
   * @returns The value, or a `ResultHandle` if it is large.
   */
  export function result(id: string): Promise<any>;

  /** A resource that a server has, or a template for addresses of some. */
  export interface ListedResource {
    server: string;
    /** For `readResource`; absent in a template. */
    uri?: string;
    uriTemplate?: string;
    name: string;
    title?: string;
    description?: string;
    mimeType?: string;
    size?: number;
    [key: string]: any;
  }

  /** The resources of all servers, or of one. */
  export function listResources(server?: string): Promise<ListedResource[]>;

  /**
   * Reads a resource: the text of one that is text, a handle for other data, an array if there are several parts.
   * @param resource An address, or a link in the result of a tool.
   * @param server The server to ask, if several could be meant.
   */
  export function readResource(resource: string | { uri: string } | { resource: { uri: string } }, server?: string): Promise<any>;

  /** A prompt of a server, with its arguments filled in. */
  export function getPrompt(
    server: string,
    name: string,
    args?: Record<string, string>,
  ): Promise<{ description?: string; messages: { role: "user" | "assistant"; content: any }[] }>;

  /** Tells whoever waits for the program how far it is. */
  export function progress(progress: number, total?: number, message?: string): void;

  /** What a call on `mcp` throws if the tool fails. */
  export class ToolError extends Error {
    readonly code: string;
    /** `server:tool`. */
    readonly tool: string;
    /** May the same call be made again, and perhaps succeed? */
    readonly retryable: boolean;
    /** Whether the call may have happened. */
    readonly outcome: CallOutcome;
    /** What the tool sent along, if anything. */
    readonly data?: any;
    /** The code of the JSON-RPC error, if the server answered with one. */
    readonly rpcCode?: number;
  }

  /** A result that is too large to be handed over at once. */
  export class ResultHandle {
    private constructor();
    readonly type: "text" | "json" | "image" | "audio" | "resource";
    /** In bytes. */
    readonly size: number;
    readonly mimeType?: string;
    readonly uri?: string;
    slice(from?: number, to?: number): Promise<string>;
    /** The value, or the part of it at a path. */
    json(path?: string): Promise<any>;
    [Symbol.asyncIterator](): AsyncIterator<string>;
    toJSON(): unknown;
  }

  const pml: {
    readonly searchTools: typeof searchTools;
    readonly callTool: typeof callTool;
    readonly callToolsBatch: typeof callToolsBatch;
    readonly executeWorkflow: typeof executeWorkflow;
    readonly readResource: typeof readResource;
    readonly listResources: typeof listResources;
    readonly getPrompt: typeof getPrompt;
    readonly progress: typeof progress;
    readonly result: typeof result;
    readonly ToolError: typeof ToolError;
    readonly ResultHandle: typeof ResultHandle;
  };
  export default pml;
}
