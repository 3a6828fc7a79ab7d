// Sets the theme before the first paint. A classic script on purpose: a module would run later.
(() => {
  try {
    const wish = JSON.parse(localStorage.getItem("ac.theme"));
    if (wish === "light" || wish === "dark") document.documentElement.dataset.theme = wish;
  } catch {
    // Storage may be switched off; the system's own theme is then the right one.
  }
})();
