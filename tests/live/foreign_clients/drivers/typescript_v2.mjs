// A client of the TypeScript SDK 2.x, in an era; prints what it observed as one JSON object.
//   node typescript_v2.mjs observe|hang NODE_MODULES/PACKAGE http:auto|sse:auto|http:legacy URL     with the key in PENSTOCK_API_KEY
//   node typescript_v2.mjs observe|hang NODE_MODULES/PACKAGE pipe:auto|pipe:legacy COMMAND ARGUMENT...
import { pathToFileURL } from "node:url";
import { observe } from "./observing.mjs";

const [mode, folder, kind, ...where] = process.argv.slice(2);
const [transportKind, era] = kind.split(":");
const load = (name) => import(pathToFileURL(`${folder}/dist/${name}.mjs`).href);
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await load("index");

async function transport() {
  if (transportKind === "pipe") {
    const { StdioClientTransport } = await load("stdio");
    return new StdioClientTransport({ command: where[0], args: where.slice(1), env: process.env, stderr: "ignore" });
  }
  const headers = { Authorization: `Bearer ${process.env.PENSTOCK_API_KEY}` };
  const made = transportKind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport;
  return new made(new URL(where[0]), { requestInit: { headers } });
}

const client = new Client({ name: "typescript-2", version: "1" }, { versionNegotiation: { mode: era } });
await client.connect(await transport());
await observe(mode, {
  server: () => client.getServerVersion(),
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: (name, given, signal) => client.callTool({ name, arguments: given }, { signal }),
});
await client.close();
