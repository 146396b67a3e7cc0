// The client of the official TypeScript SDK, told what to do on the command line; prints what it got as one JSON object.
//   node typescript_client.mjs NODE_MODULES auto|legacy URL        with the key in PENSTOCK_API_KEY
//   node typescript_client.mjs NODE_MODULES auto|legacy - COMMAND ARGUMENT...
import { pathToFileURL } from "node:url";

const [modules, era, url, ...command] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${modules}/@modelcontextprotocol/client/dist/${name}.mjs`).href);
const { Client, StreamableHTTPClientTransport } = await load("index");

const asked = [];
const progress = [];
const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode: era } },
);
client.setRequestHandler("elicitation/create", async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { approved: true, reason: "it is late" } };
});

async function transport() {
  if (url === "-") {
    const { StdioClientTransport } = await load("stdio");
    return new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env });
  }
  const headers = { Authorization: `Bearer ${process.env.PENSTOCK_API_KEY}` };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

await client.connect(await transport());
const { tools } = await client.listTools();
const greet = () =>
  client.callTool(
    { name: "greet", arguments: { name: "Ada" } },
    { onprogress: (news) => progress.push(news.message) },
  );
let greeted = await greet();
// This client drops the progress of a call whose result arrives with it in one piece, and a short run is that quick.
for (const end = Date.now() + 120000; Date.now() < end && progress.length === 0;) greeted = await greet();
const refunded = await client.callTool({ name: "refund_order", arguments: { order: "A-1" } });
const stumbled = await client.callTool({ name: "stumble", arguments: {} });
const unknown = await client.callTool({ name: "nothing", arguments: {} }).catch((error) => error.code);
const { resources } = await client.listResources();
const read = await client.readResource({ uri: "penstock://workflows/greet" });
const { prompts } = await client.listPrompts();
const prompt = await client.getPrompt({ name: "greet", arguments: { name: "Ada" } });
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion?.() ?? null,
    server: client.getServerVersion(),
    tools: tools.map((tool) => tool.name),
    greeted,
    asked,
    refunded,
    stumbled,
    unknown,
    progress,
    resources: resources.map((resource) => resource.uri),
    read: read.contents[0],
    prompts: prompts.map((item) => item.name),
    prompt: prompt.messages[0],
  }),
);
await client.close();
