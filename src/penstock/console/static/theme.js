// The theme that somebody chose in this browser. It runs before the page is drawn, so that nothing flashes.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("penstock-theme"); } catch { /* storage is closed: the system decides */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
