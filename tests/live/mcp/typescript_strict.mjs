// Strict clients of the TypeScript SDKs 1.x and 2.x: they list the tools, and refuse an answer that does not fit the
// schema of its tool. Prints what each made of each call as one JSON object.
//   node typescript_strict.mjs NODE_MODULES URL CALLS     with the key in PENSTOCK_API_KEY; CALLS: a list of parameters
import { pathToFileURL } from "node:url";

const [modules, url, given] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`).href);
const one = { ...(await load("sdk/dist/esm/client/index.js")), ...(await load("sdk/dist/esm/client/streamableHttp.js")) };
const two = await load("client/dist/index.mjs");

async function answered(call) {
  try {
    const result = await call();
    const text = result.content.filter((block) => block.type === "text").map((block) => block.text);
    return { structured: result.structuredContent ?? null, text: text.join("\n"), isError: result.isError === true };
  } catch (error) {
    return { threw: String(error.message ?? error) };
  }
}

async function run(client, transport) {
  await client.connect(transport);
  await client.listTools();
  const found = [];
  for (const { _meta, ...call } of JSON.parse(given)) {
    found.push(await answered(() => client.callTool(_meta ? { ...call, _meta } : call)));
  }
  await client.close();
  return found;
}

const requestInit = { headers: { Authorization: `Bearer ${process.env.PENSTOCK_API_KEY}` } };
const about = { name: "strict", version: "1" };
const auto = { versionNegotiation: { mode: "auto" } };
console.log(
  JSON.stringify({
    "typescript-1": await run(
      new one.Client(about, {}),
      new one.StreamableHTTPClientTransport(new URL(url), { requestInit }),
    ),
    "typescript-2": await run(
      new two.Client(about, auto),
      new two.StreamableHTTPClientTransport(new URL(url), { requestInit }),
    ),
  }),
);
