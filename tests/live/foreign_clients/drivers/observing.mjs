// What every client for Node.js is made to do, and the form in which it tells what it got.

const text = (result) =>
  result.content
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("\n");

// What came of a call: whether it was an error or raised one, and the words that the caller has of it.
async function outcome(call) {
  try {
    const result = await call();
    const blocks = result.content.map((block) => block.type);
    return { raised: false, is_error: result.isError === true, text: text(result), blocks, meta: result._meta ?? null };
  } catch (error) {
    return { raised: true, is_error: true, text: String(error.message ?? error), code: error.code ?? null };
  }
}

async function cancelled(client) {
  const stop = new AbortController();
  const call = outcome(() => client.call("nap", {}, stop.signal));
  setTimeout(() => stop.abort("enough"), 300);
  const ended = await call;
  return { ended, after: await outcome(() => client.call("greet", { name: "Ada" })) };
}

export async function observe(mode, client) {
  if (mode === "hang") {
    // Whoever started this ends it when the run is there.
    await client.call("nap", {});
    return;
  }
  const seen = {
    connect: client.server(),
    list: await client.list(),
    right: await outcome(() => client.call("greet", { name: "Ada" })),
    wrong: await outcome(() => client.call("greet", { name: "Ada", tone: "rude", more: 1 })),
    unknown: await outcome(() => client.call("nothing", {})),
    failing: await outcome(() => client.call("stumble", {})),
    waiting: await outcome(() => client.call("refund_order", { order: "A-1" })),
    large: await outcome(() => client.call("big", {})),
    cancel: await cancelled(client),
  };
  console.log(JSON.stringify(seen));
}
