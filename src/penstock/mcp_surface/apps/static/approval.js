// The card of a call that waits for approval: what would be done, who asked, until when, and who has agreed.
"use strict";

function listed(value) { return Array.isArray(value) ? value : []; }

function quorum(approvers, votes) {
  const needed = Number.isInteger(approvers?.count) ? approvers.count : 1;
  const names = [approvers?.group, ...listed(approvers?.groups), ...listed(approvers?.users)];
  const from = names.filter((name) => typeof name === "string").join(" or ");
  const by = listed(votes).map((vote) => vote?.by).filter((name) => typeof name === "string").join(", ");
  return `${listed(votes).length} of ${needed}${from ? ` from ${from}` : ""}${by ? `; agreed: ${by}` : ""}`;
}

function waits(question) {
  return [["Expires", question?.expires_at && moment(question.expires_at)],
    ["Approvals so far", question?.approvers && quorum(question.approvers, question.votes)]];
}

// A draft, as the tools about held calls answer.
function draftCard(draft) {
  const who = draft.requester_name ? `${draft.requester_name} (${draft.requested_by})` : draft.requested_by;
  const open = draft.status === "waiting";
  const card = make("section", open ? "card wait" : "card");
  card.append(
    make("h1", "", open ? "Waits for approval" : `This call is ${draft.status}`),
    make("p", "", make("strong", "", draft.title ?? draft.operation)),
    facts([["Operation", draft.operation], ["Asked by", who], ["For", listed(draft.acting_for).join(", ")],
      ["Justification", draft.justification], ["Risk", draft.risk]]),
    make("h2", "", "Arguments"), make("pre", "", draft.arguments ?? {}),
    facts([["Digest", draft.digest],
      ...(open ? waits({ expires_at: draft.expires_at, approvers: draft.approvers, votes: draft.votes }) : []),
      ["Error", draft.error?.message]]),
  );
  return card;
}

// A held call, or a question, as the state of a run shows it. The question of a held call says who asks for what.
function questionCard(question, held) {
  const approval = Boolean(held ?? question.approvers);
  return make("section", "card wait",
    make("h1", "", approval ? "Waits for approval" : "Waits for an answer"), make("pre", "", question.prompt ?? ""),
    facts([["Operation", held?.operation], ["Digest", held?.digest],
      ...waits({ ...question, expires_at: question.expires_at ?? held?.expires_at })]));
}

function heldCard(held) {
  return make("section", "card wait", make("h1", "", "Waits for approval"),
    facts([["Operation", held.operation], ["Held because", held.reason], ["Digest", held.digest],
      ["Expires", held.expires_at && moment(held.expires_at)]]));
}

function cards(data) {
  if (typeof data.digest === "string" && typeof data.requested_by === "string") return [draftCard(data)];
  const questions = listed(data.questions ?? data.waiting_for?.questions).filter((item) => item && !item.ask);
  const asked = questions.map((item, index) => questionCard(item, index === 0 ? data.held : undefined));
  if (data.held && asked.length === 0) asked.push(heldCard(data.held));
  return [...asked, ...listed(data.held_calls).map(heldCard)];
}

function showApproval(result) {
  const found = cards(result.structuredContent ?? {});
  if (found.length > 0) return replace(...found, ...way(result._meta?.[VIEW]?.open));
  replace(note(result.isError ? "The call ended with an error; the conversation has it." : "Nothing waits for approval."));
}
