// Keeps pages current. The server says which runs moved; what became of them is read again, as a page, so that nothing
// that arrives late can show a run as it no longer is.
//
//   <section id="run" data-live="run:r_1">    is read again when that run moves
//   <section id="list" data-live="runs">      is read again when any run moves
//   data-live-src="ADDRESS"                   the page to read it from, if it is not the one that is open
//   data-live-every="MILLISECONDS"            it is read again that often, too: it shows what moves no run
//   <time data-since="INSTANT">               a clock that goes while the page is live, and stops when it is not
//
// One tab of a browser has the stream and tells the others; hidden tabs have none.

const QUIET_MS = 15000; // three heartbeats: from then on the page asks by itself
const POLL_MS = 15000;
const GAP_MS = 250; // at most four times a second
const RETRY_MS = [1000, 2000, 4000, 8000, 16000, 30000];
const { who, root } = document.body.dataset;
const badge = document.querySelector("#freshness");
const channel = who ? new BroadcastChannel(`penstock-${who}`) : null;

let state = "joining"; // then live, paused, lost, quiet or closed
let retryAt = 0;
let heardAt = performance.now();
let polledAt = performance.now();
let failures = 0;
let source = null;
let position = null;
let release = null; // gives the place of the leader to another tab
let waiting = null; // aborts the wait for that place
let isSignedOut = false;

// --- what is shown ---------------------------------------------------------------------------------------------------

const WORDS = {
  joining: "Connecting",
  live: "Live",
  paused: "Paused",
  lost: "Connection lost",
  quiet: "No news, asking every 15 s",
  closed: "Not live",
};

function show(next, until = 0) {
  const changed = next !== state;
  state = next;
  retryAt = until;
  if (changed && release) channel.postMessage({ state, retryIn: Math.max(0, retryAt - performance.now()) });
  draw();
}

function draw() {
  if (!badge) return;
  const words = badge.querySelector(".words");
  const text = isSignedOut ? "Signed out" : WORDS[state];
  if (words.textContent !== text) words.textContent = text; // only a change is read out
  const left = Math.ceil((retryAt - performance.now()) / 1000);
  const detail = state !== "lost" || isSignedOut ? "" : left > 0 ? `, trying again in ${left} s` : ", trying again";
  const seconds = badge.querySelector(".seconds");
  if (seconds.textContent !== detail) seconds.textContent = detail;
  badge.dataset.state = isSignedOut ? "lost" : state;
  badge.hidden = false;
}

function tick() {
  const now = performance.now();
  if (state === "live" && now - heardAt > QUIET_MS) show("quiet");
  if (state === "quiet" && now - polledAt > POLL_MS && !document.hidden) {
    polledAt = now;
    refresh(() => true);
  }
  if (state === "live") {
    for (const clock of document.querySelectorAll("[data-since]")) clock.textContent = passed(clock.dataset.since);
  }
  if (["live", "quiet", "closed"].includes(state) && !document.hidden) again(now); // without news, too
  draw();
}

function passed(since) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 1000));
  const [days, hours, minutes] = [86400, 3600, 60].map(size => Math.floor(seconds / size));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

// --- reading again ---------------------------------------------------------------------------------------------------

const wanted = new Set();
let timer = 0;
let isReading = false;
let hasFailed = false; // whether a part of the last reading had no answer
let failedReadings = 0; // one after the other

function refresh(concerns) {
  for (const part of document.querySelectorAll("[data-live][id]")) {
    if (part.dataset.live.split(" ").some(concerns)) wanted.add(part.id);
  }
  if (failedReadings) { // news: what failed is not waited for any longer
    clearTimeout(timer);
    timer = 0;
  }
  if (wanted.size && !timer && !isReading) timer = setTimeout(read, GAP_MS);
}

const isEdited = part => [...part.querySelectorAll("input, textarea, select")].some(field => {
  if (field.type === "hidden") return false;
  if (field === document.activeElement) return true;
  if (field.tagName === "SELECT") return [...field.options].some(item => item.selected !== item.defaultSelected);
  return ["checkbox", "radio"].includes(field.type)
    ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
});

const askedAt = new Map();

function again(now) {
  for (const part of document.querySelectorAll("[data-live-every][id]")) {
    if (now - (askedAt.get(part.id) ?? 0) < Number(part.dataset.liveEvery)) continue;
    askedAt.set(part.id, now);
    wanted.add(part.id);
  }
  if (wanted.size && !timer && !isReading) timer = setTimeout(read, GAP_MS);
}

async function read() {
  timer = 0;
  if (document.hidden) return; // it is read when the tab is shown
  isReading = true;
  const bySource = new Map();
  for (const id of wanted) {
    const part = document.getElementById(id);
    if (!part) continue;
    if (isEdited(part)) { // what somebody is writing is not taken away
      document.querySelector("#outdated")?.removeAttribute("hidden");
      continue;
    }
    const address = part.dataset.liveSrc ?? location.pathname + location.search;
    bySource.set(address, [...bySource.get(address) ?? [], `#${CSS.escape(id)}:outerMorph`]);
  }
  const asked = [...wanted];
  wanted.clear();
  hasFailed = false;
  const title = document.querySelector("h1")?.innerText;
  folds = foldsOf(bySource);
  try {
    for (const [address, parts] of bySource) {
      await window.htmx.ajax("GET", address, { source: document.body, swap: "none", selectOOB: parts.join(",") });
    }
  } finally {
    isReading = false;
  }
  for (const [fold, isOpen] of folds) fold.open = isOpen;
  folds = null;
  keepFocus();
  tell(title);
  failedReadings = hasFailed ? failedReadings + 1 : 0;
  if (hasFailed) asked.forEach(id => wanted.add(id)); // what had no answer is asked for again
  const pause = hasFailed ? RETRY_MS[Math.min(failedReadings, RETRY_MS.length) - 1] : GAP_MS;
  if (wanted.size && !timer) timer = setTimeout(read, pause);
}

// --- what a reading must not take away -------------------------------------------------------------------------------

const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]";
let focused = null; // the control that has the focus, if it is in a part that is read again

document.addEventListener("focusin", ({ target }) => {
  const part = target.closest("[data-live][id]");
  focused = part && part !== target ? { target, id: part.id } : null;
});

// A control that is gone gives its focus to the same one in what came instead, or to the part that it was in: whoever
// uses the keyboard goes on from there, and never presses another button than the one that was meant.
function keepFocus() {
  if (!focused || focused.target.isConnected || document.activeElement !== document.body) return;
  const gone = focused.target;
  const part = document.getElementById(focused.id) ?? document.querySelector("main");
  const isSame = item => item.tagName === gone.tagName && (gone.id ? item.id === gone.id
    : ["href", "name", "value", "action"].every(name => item.getAttribute(name) === gone.getAttribute(name))
      && item.textContent === gone.textContent);
  const same = [...part.querySelectorAll(CONTROLS)].find(isSame);
  if (!same) part.tabIndex = -1;
  (same ?? part).focus({ preventScroll: true });
}

// What somebody unfolded stays so, also if they do it while the answer is on its way.
let folds = null; // what is open, during a reading

function foldsOf(bySource) {
  const parts = [...bySource.values()].flat().map(part => part.replace(/:outerMorph$/, " details"));
  return new Map(parts.flatMap(part => [...document.querySelectorAll(part)]).map(fold => [fold, fold.open]));
}

document.addEventListener("click", ({ target }) => {
  const fold = target.closest("summary")?.parentElement;
  if (folds && fold) folds.set(fold, !fold.open); // it is told before it happens
});

// A heading that has another status now is read out.
function tell(before) {
  const now = document.querySelector("h1")?.innerText;
  const status = document.querySelector("#moved");
  if (status && now && before && now !== before) status.textContent = now;
}

document.addEventListener("htmx:error", () => { hasFailed = true; });
document.addEventListener("htmx:after:request", event => {
  const response = event.detail.ctx.response.raw;
  if (response.status === 429 || response.status >= 500) hasFailed = true;
  isSignedOut = response.redirected && new URL(response.url).pathname === `${root}/sign-in`;
  if (isSignedOut) document.querySelector("#signed-out")?.removeAttribute("hidden");
  if (isSignedOut || response.status >= 400) event.detail.ctx.selectOOB = null; // what is shown stays, if not for long
  draw();
});

function changed({ executions, many }) {
  const topics = new Set(["runs", ...executions.map(id => `run:${id}`)]);
  refresh(topic => topics.has(topic) || (many && topic.startsWith("run:")));
  document.dispatchEvent(new CustomEvent("penstock:changed", { detail: { executions, many } }));
}

// --- the stream ------------------------------------------------------------------------------------------------------

function connect() {
  const query = position ? `?after=${encodeURIComponent(position)}` : "";
  source = new EventSource(`${root}/events${query}`);
  source.addEventListener("beat", () => heard({ beat: true }));
  source.addEventListener("changed", event => {
    position = event.lastEventId || position;
    heard({ changed: JSON.parse(event.data) });
  });
  source.addEventListener("closed", () => { // the key ended, or may not know of runs
    source.close();
    source = null;
    show("closed");
    refresh(() => true);
  });
  source.addEventListener("error", () => {
    source?.close();
    source = null;
    if (!release) return;
    const pause = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] * (0.8 + 0.4 * Math.random());
    show("lost", performance.now() + pause);
    setTimeout(() => { if (release && !source) connect(); }, pause);
    if (failures > 1) refresh(() => true); // tells whether somebody is signed out, or the server is gone
  });
}

function heard(message) {
  const wasLost = state === "lost" || state === "quiet";
  failures = 0;
  heardAt = performance.now();
  channel.postMessage(message);
  show("live");
  if (message.changed) changed(message.changed);
  else if (wasLost) refresh(() => true);
}

async function lead() {
  if (waiting || release) return;
  waiting = new AbortController();
  const hold = () => new Promise(done => {
    waiting = null;
    release = done;
    connect();
  });
  try {
    // Without a secure context there are no locks, and every tab that is shown has a stream of its own.
    await (navigator.locks?.request(`penstock-${who}`, { signal: waiting.signal }, hold) ?? hold());
  } catch { /* the tab was hidden while it waited */ }
}

function rest() {
  waiting?.abort();
  waiting = null;
  source?.close();
  source = null;
  const give = release;
  release = null;
  show("paused");
  give?.();
}

function shown() {
  lead();
  channel.postMessage({ hello: true });
  refresh(() => true); // nobody told a hidden tab
}

if (who && window.htmx) {
  channel.addEventListener("message", ({ data }) => {
    if (data.hello) {
      if (release) channel.postMessage({ state, retryIn: Math.max(0, retryAt - performance.now()) });
      return;
    }
    if (document.hidden) return;
    const wasLost = state === "lost" || state === "quiet";
    heardAt = performance.now();
    if (data.state) show(data.state, performance.now() + data.retryIn);
    else show("live");
    if (data.changed) changed(data.changed);
    else if (wasLost && state === "live") refresh(() => true);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : shown()));
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", event => { if (event.persisted) shown(); });
  if (!document.hidden) {
    lead();
    channel.postMessage({ hello: true });
  }
  setInterval(tick, 1000);
  tick();
}
