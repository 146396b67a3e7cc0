// Light, dark, or what the system says. The choice stays in this browser; the server does not know of it.
const NAME = "penstock-theme";
const select = document.querySelector("#theme");

if (select) {
  select.value = document.documentElement.dataset.theme ?? "system";
  select.addEventListener("change", () => {
    if (select.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
    try { localStorage.setItem(NAME, select.value); } catch { /* it holds until the page is left */ }
  });
}
