// Lists in forms: an item is added or removed by sending the form, as without script, but only its fields are read
// from the page that comes back. What was typed into a password field is not in it, and is put back here.

const NAME = "form.edit";

async function edit(button) {
  const form = button.form;
  const part = button.closest("[data-lists] > [id]");
  const secrets = [...part.querySelectorAll("input[type=password]")].map(field => [field.id, field.value]);
  const before = new Set([...part.querySelectorAll("[id]")].map(item => item.id));
  const sent = new FormData(form, button);
  await window.htmx.ajax(form.method.toUpperCase(), form.getAttribute("action"), {
    source: form, target: `#${CSS.escape(part.id)}`, select: `#${CSS.escape(part.id)}`, swap: "outerSync",
    values: Object.fromEntries([...sent.keys()].map(name => [name, sent.getAll(name)])), push: "false",
  });
  const after = document.getElementById(part.id);
  for (const [id, value] of secrets) {
    const field = document.getElementById(id);
    if (field) field.value = value;
  }
  const added = [...after.querySelectorAll("input:not([type=hidden]), select, textarea")].find(item => !before.has(item.id));
  (added ?? after.querySelector(`button[name="${NAME}"]`))?.focus();
}

if (window.htmx) {
  document.addEventListener("click", event => {
    const button = event.target.closest?.(`form[data-lists] button[name="${NAME}"]`);
    if (!button || event.defaultPrevented) return;
    event.preventDefault();
    edit(button);
  });
}
