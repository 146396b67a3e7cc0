// Keys: `?` shows them, `/` searches, `g` and a letter go to a page, `j` and `k` move through a list.
const SECOND_KEY_MS = 1500;
let waitsForLetter = 0;

const isTyping = target => target instanceof Element
  && target.closest("input, textarea, select, [contenteditable]") !== null;

function search() {
  const field = document.querySelector("main input[type=search]");
  if (field) field.focus();
  else document.querySelector("a[data-key='r']")?.click();
}

function step(forwards) {
  const rows = [...document.querySelectorAll("main tbody tr, main .row")]
    .map(row => row.querySelector("a[href]")).filter(link => link?.checkVisibility());
  if (!rows.length) return;
  const row = document.activeElement?.closest("tr, .row");
  const at = rows.findIndex(link => row && row.contains(link));
  rows[Math.min(Math.max(at + (forwards ? 1 : -1), 0), rows.length - 1)].focus();
}

function showKeys() {
  const dialog = document.querySelector("#keys");
  if (dialog && !dialog.open) dialog.showModal();
}

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  const second = performance.now() < waitsForLetter;
  waitsForLetter = 0;
  const place = second ? document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`) : null;
  if (place) place.click();
  else if (event.key === "g") waitsForLetter = performance.now() + SECOND_KEY_MS;
  else if (event.key === "?") showKeys();
  else if (event.key === "/") search();
  else if (event.key === "j" || event.key === "k") step(event.key === "j");
  else return;
  event.preventDefault();
});

document.querySelector("#show-keys")?.addEventListener("click", event => {
  event.preventDefault();
  showKeys();
});
