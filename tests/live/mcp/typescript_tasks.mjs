// The tasks extension as its authors' TypeScript package speaks it: a call becomes a task, its question is answered, and
// its result is awaited. Prints what came of it as one JSON object.
//   node typescript_tasks.mjs NODE_MODULES URL        with the key in PENSTOCK_API_KEY
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`).href);
const { Client, StreamableHTTPClientTransport } = await load("client/dist/index.mjs");
const { createTaskSessionFromClient, resultFromTaskOutcome } = await load("ext-tasks/dist/client/index.js");

const version = "2026-07-28";
const clientInfo = { name: "typescript-tasks", version: "1" };
const clientCapabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };
const headers = { Authorization: `Bearer ${process.env.PENSTOCK_API_KEY}` };
const methods = [];

let number = 0;
async function rawDispatch(request, { signal } = {}) {
  methods.push(request.method);
  const named = request.params?.name ?? request.params?.taskId;
  const response = await fetch(url, {
    method: "POST",
    signal,
    headers: {
      ...headers,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": version,
      "Mcp-Method": request.method,
      ...(named ? { "Mcp-Name": named } : {}),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++number, ...request }),
  });
  const text = await response.text();
  const data = text.startsWith("{") ? text : text.split("\n").filter((line) => line.startsWith("data: {")).pop().slice(6);
  const answer = JSON.parse(data);
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}

const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "test",
  rawDispatch,
  v2RequestFraming: { protocolVersion: version, clientInfo, clientCapabilities },
  onInputRequest: async (request) => {
    asked.push(JSON.parse(JSON.stringify(request)));
    return { action: "accept", content: { approved: true } };
  },
});
const execution = await session.callTool("refund_order", { order: "A-1" });
const { outcome } = await execution.settle();
console.log(JSON.stringify({ asked, methods, result: resultFromTaskOutcome(outcome) }));
await session.close();
await client.close();
