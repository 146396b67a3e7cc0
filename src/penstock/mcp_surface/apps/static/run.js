// The timeline of a run: how it stands, its nodes, when each began, and what it waits for.
"use strict";

const STATES = { completed: "good", failed: "bad", cancelled: "bad", running: "busy", retrying: "busy", waiting: "wait" };

function state(status) {
  return make("span", `status ${STATES[status] ?? (String(status).startsWith("waiting") ? "wait" : "plain")}`, status ?? "unknown");
}

function lasted(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = milliseconds / 1000;
  return seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}

function lane(node, first, last) {
  const from = Date.parse(node.started_at), to = node.ended_at ? Date.parse(node.ended_at) : last;
  const row = make("li", "", make("div", "row", make("strong", "", node.node_id), make("span", "quiet", node.type), state(node.status)));
  if (Number.isNaN(from)) return row;
  const again = node.attempts > 1 ? `, ${node.attempts} attempts` : "";
  row.append(make("div", "quiet", `${moment(node.started_at)}, ${node.ended_at ? lasted(to - from) : "not ended"}${again}`));
  const bar = make("div", "bar"), span = Math.max(last - first, 1);
  const left = (100 * (from - first)) / span;
  bar.style.marginLeft = `${left}%`;
  bar.style.width = `${node.ended_at ? Math.max((100 * (to - from)) / span, 0.5) : 100 - left}%`;
  const track = make("div", "track", bar);
  track.setAttribute("aria-hidden", "true");
  row.append(track);
  if (node.error || node.error_code) row.append(make("div", "wrong", node.error ?? node.error_code));
  return row;
}

function timeline(run) {
  const nodes = listed(run.nodes).filter((node) => node && typeof node === "object");
  const times = nodes.flatMap((node) => [node.started_at, node.ended_at]).map(Date.parse).filter((at) => !Number.isNaN(at));
  const whole = [run.created_at, run.ended_at ?? run.updated_at].map(Date.parse).filter((at) => !Number.isNaN(at));
  const first = Math.min(...times, ...whole), last = Math.max(...times, ...whole);
  const begun = nodes.filter((node) => node.started_at).sort((one, other) => Date.parse(one.started_at) - Date.parse(other.started_at));
  const later = nodes.filter((node) => !node.started_at);
  const list = make("ol", "timeline", ...[...begun, ...later].map((node) => lane(node, first, last)));
  const missing = run.nodes_left_out > 0 ? [note(`${run.nodes_left_out} more nodes are not shown.`)] : [];
  return nodes.length > 0 ? [make("h2", "", "Nodes"), list, ...missing] : [];
}

function showRun(result) {
  const view = result._meta?.[VIEW], data = result.structuredContent ?? {};
  const run = view?.run ?? data, found = cards(data), button = way(view?.open);
  if (run.execution_id === undefined || data.held) return showApproval(result);
  replace(...found, ...(found.length > 0 ? button : []), make("section", "card",
    make("h1", "", run.workflow_id ?? "Run", " ", state(run.status)),
    facts([["Run", run.execution_id], ["Started", run.created_at && moment(run.created_at)], ["Ended", run.ended_at && moment(run.ended_at)]]),
    ...(run.error ? [make("p", "wrong", `${run.error.code ?? ""}: ${run.error.message ?? ""}`)] : []),
    ...timeline(run)), ...(found.length > 0 ? [] : button));
}
