// A client of the TypeScript SDK 1.x; prints what it observed as one JSON object.
//   node typescript_v1.mjs observe|hang NODE_MODULES/PACKAGE http URL        with the key in PENSTOCK_API_KEY
//   node typescript_v1.mjs observe|hang NODE_MODULES/PACKAGE pipe COMMAND ARGUMENT...
import { pathToFileURL } from "node:url";
import { observe } from "./observing.mjs";

const [mode, folder, kind, ...where] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/dist/esm/client/${name}.js`).href);
const { Client } = await load("index");

async function transport() {
  if (kind === "pipe") {
    const { StdioClientTransport } = await load("stdio");
    return new StdioClientTransport({ command: where[0], args: where.slice(1), env: process.env, stderr: "ignore" });
  }
  const requestInit = { headers: { Authorization: `Bearer ${process.env.PENSTOCK_API_KEY}` } };
  if (kind === "sse") {
    const { SSEClientTransport } = await load("sse");
    // Of these versions some send the headers of `requestInit` when they open the stream, and some do not.
    const fetchWithKey = (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set("Authorization", requestInit.headers.Authorization);
      return fetch(url, { ...init, headers });
    };
    return new SSEClientTransport(new URL(where[0]), { requestInit, eventSourceInit: { fetch: fetchWithKey } });
  }
  const { StreamableHTTPClientTransport } = await load("streamableHttp");
  return new StreamableHTTPClientTransport(new URL(where[0]), { requestInit });
}

const client = new Client({ name: "typescript-1", version: "1" }, { capabilities: {} });
await client.connect(await transport());
await observe(mode, {
  server: () => client.getServerVersion(),
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: (name, given, signal) => client.callTool({ name, arguments: given }, undefined, { signal }),
});
await client.close();
