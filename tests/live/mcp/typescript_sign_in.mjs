// The client of the official TypeScript SDK signs in, lists tools and calls one; prints what it got as one JSON object.
//   node typescript_sign_in.mjs NODE_MODULES auto|legacy URL
// There is no browser: it follows the redirects of the authorization server itself, with cookies.
import { pathToFileURL } from "node:url";

const [modules, era, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await import(
  pathToFileURL(`${modules}/@modelcontextprotocol/client/dist/index.mjs`).href
);

const REDIRECT = "http://127.0.0.1/callback";
const kept = {};
let callback;

async function browse(start) {
  const cookies = new Map();
  let next = new URL(start);
  for (let hops = 0; hops < 20; hops += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(next, { redirect: "manual", headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [name, value] = line.split(";")[0].split("=");
      cookies.set(name, value);
    }
    const place = answer.headers.get("location");
    if (place === null) throw new Error(`${next}: ${answer.status} ${await answer.text()}`);
    next = new URL(place, next);
    if (next.href.startsWith(REDIRECT)) return next.searchParams;
  }
  throw new Error("too many redirects");
}

const authProvider = {
  redirectUrl: REDIRECT,
  clientMetadataUrl: "https://client.example/metadata.json",
  clientMetadata: { client_name: "typescript", redirect_uris: [REDIRECT], token_endpoint_auth_method: "none" },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: async (address) => {
    kept.asked = new URL(address).searchParams;
    callback = await browse(address);
  },
};

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const client = new Client({ name: "typescript", version: "1" }, { versionNegotiation: { mode: era } });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(callback);
    return undefined;
  }
}

const client = (await connect()) ?? (await connect());
const { tools } = await client.listTools();
const greeted = await client.callTool({ name: "greet", arguments: { name: "Ada" } });
console.log(
  JSON.stringify({
    client: kept.client?.client_id ?? kept.asked.get("client_id"),
    scope: kept.asked.get("scope"),
    resource: kept.asked.get("resource"),
    method: kept.asked.get("code_challenge_method"),
    tools: tools.map((tool) => tool.name),
    greeted,
  }),
);
await client.close();
