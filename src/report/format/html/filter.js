// Adds a box that leaves in sight what has all the words that are typed: a node, a check, a reason, any text.
{
  const main = document.querySelector("main");
  const box = document.createElement("div");
  box.className = "filter";
  box.setAttribute("role", "search");
  const labeled = (text, type) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = type;
    label.append(...(type === "checkbox" ? [input, text] : [text, input]));
    box.append(label);
    return input;
  };
  const words = labeled("Filter", "search");
  words.placeholder = "node, check, text";
  const bad = labeled("not well only", "checkbox");
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  box.append(said);

  const text = (element) => (element?.textContent ?? "").toLowerCase();
  let items;
  // Once, when it is needed: a thousand nodes are much to read.
  const read = () => [...main.querySelectorAll(".card, .check, .grid tbody tr, .timeline .track:not(.axis)")].map((item) => ({
    item,
    text: text(item),
    head: text(item.querySelector("summary, h3")),
    isBad: item.matches(".card") || item.querySelector(".fail, .error, .warn, .blocked") !== null,
    rows: item.matches("tr") ? [] : [...item.querySelectorAll("tbody tr")].map((row) => ({ row, text: text(row) })),
  }));

  const apply = () => {
    items ??= read();
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { item, text, head, isBad, rows } of items) {
      item.hidden = !wanted.every((word) => text.includes(word)) || (bad.checked && !isBad);
      shown += !item.hidden;
      // Of a table the rows that have the words, if there are any: the words may be elsewhere in the item.
      const rest = wanted.filter((word) => !head.includes(word));
      const fits = rows.map((row) => rest.every((word) => row.text.includes(word)));
      rows.forEach(({ row }, n) => (row.hidden = fits.includes(true) && !fits[n]));
    }
    said.textContent = wanted.length || bad.checked ? `${shown} of ${items.length} shown` : "";
  };
  words.addEventListener("input", apply);
  bad.addEventListener("change", apply);

  // A cell of the grid leads to what was found of that node.
  const reveal = (target) => {
    for (let at = target; at; at = at.parentElement) if (at.matches("details")) at.open = true;
    if (target?.closest("[hidden]")) {
      words.value = "";
      bad.checked = false;
      apply();
    }
  };
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!link) return;
    const names = link.closest(".grid tbody tr")?.querySelectorAll("th bdi") ?? [];
    if (names.length === 1 && names[0].textContent !== "cluster") {
      words.value = names[0].textContent;
      apply();
    }
    reveal(document.getElementById(link.hash.slice(1)));
  });
  if (main.querySelector(".check")) main.prepend(box);
  if (location.hash.length > 1) reveal(document.getElementById(location.hash.slice(1)));
}
