// The list of rules: a field and two choices above it hide the rows that do not match, and groups without rows.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("rules-filter");
  if (!place) return;
  const choice = (id, text, values) =>
    `<label for="${id}">${text}</label><select id="${id}"><option value="">any</option>` +
    values.map((value) => `<option>${value}</option>`).join("") + "</select>";
  place.innerHTML =
    '<label for="rules-text">Find</label><input id="rules-text" type="search" autocomplete="off">' +
    choice("rules-severity", "Severity", ["error", "warning", "info"]) +
    choice("rules-fix", "Fix", ["safe", "unsafe", "none"]) +
    '<output id="rules-count" aria-live="polite"></output>';
  const tables = [...place.parentElement.querySelectorAll("table")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const groups = tables.map((table) => ({
    rows: [...table.tBodies[0].rows],
    parts: [table, ...(table.previousElementSibling?.tagName === "H2" ? [table.previousElementSibling] : [])],
  }));
  const [text, severity, fix] = ["rules-text", "rules-severity", "rules-fix"].map((id) => document.getElementById(id));
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const said = row.textContent.toLowerCase();
      row.hidden =
        !words.every((word) => said.includes(word)) ||
        (severity.value && row.cells[2].textContent !== severity.value) ||
        (fix.value && row.cells[3].textContent !== fix.value);
    }
    for (const group of groups) {
      const gone = group.rows.every((row) => row.hidden);
      group.parts.forEach((part) => (part.hidden = gone));
    }
    document.getElementById("rules-count").textContent =
      `${rows.filter((row) => !row.hidden).length} of ${rows.length} rules`;
  };
  [text, severity, fix].forEach((each) => each.addEventListener("input", apply));
  apply();
});
