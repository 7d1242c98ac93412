// Adds a box that leaves in sight what has all the words that are typed: a node, a check, a reason, any text. The counts at the top
// become buttons that leave the checks in sight that ended so.
{
  const main = document.querySelector("main");
  const box = document.createElement("div");
  box.className = "filter";
  box.setAttribute("role", "search");
  const label = document.createElement("label");
  const words = document.createElement("input");
  words.type = "search";
  const isFleet = main.querySelector("#clusters") !== null;
  words.placeholder = isFleet ? "cluster, cause, text" : "node, check, text";
  label.append("Filter", words);
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  box.append(label, said);

  let status = "";
  const buttons = [...document.querySelectorAll(".counts li")].map((item) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = item.className;
    button.textContent = item.textContent;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      choose(status === item.dataset.status ? "" : item.dataset.status);
      if (status) document.querySelector("#checks").scrollIntoView();
    });
    item.removeAttribute("class");
    item.replaceChildren(button);
    return { button, of: item.dataset.status };
  });

  const text = (element) => (element?.textContent ?? "").toLowerCase();
  // Names that a count stands for: folded next to it, or in a list further down that several counts link to.
  const lists = new Map();
  const listOf = (count) => {
    const holder = count.matches("a") ? document.getElementById(count.hash.slice(1)) : count;
    if (!lists.has(holder)) {
      const names = [...holder.querySelectorAll(":scope > bdi")].map((name) => name.textContent);
      lists.set(holder, { names: names.map((name) => ({ name, text: name.toLowerCase() })), text: text(holder) });
    }
    return lists.get(holder);
  };
  const folded = (element) => [...element.querySelectorAll(".names")].map((count) => ({ count, list: listOf(count) }));
  // All that can be found in an element: its text, and the lists that it links to.
  const found = (element) => {
    const linked = folded(element).filter(({ count }) => count.matches("a")).map(({ list }) => list.text);
    const all = [text(element), ...new Set(linked)];
    return (word) => all.some((one) => one.includes(word));
  };
  let items;
  // Once, when it is needed: a thousand nodes are much to read.
  const read = () => [...main.querySelectorAll(".card, .check, .grid tbody tr, .timeline .track:not(.axis)")].map((item) => ({
    item,
    has: found(item),
    head: text(item.querySelector("summary, h3")),
    rows: item.matches("tr") ? [] : [...item.querySelectorAll("tbody tr")].map((row) => ({ row, has: found(row) })),
    counts: folded(item),
  }));
  // A count alone does not show what was found: the names that were are next to it.
  const name = ({ count, list }, wanted) => {
    const place = count.querySelector("summary") ?? count.parentElement;
    place.querySelector(":scope > .found")?.remove();
    const names = wanted.length ? list.names.filter(({ text }) => wanted.some((word) => text.includes(word))) : [];
    if (names.length === 0 || names.length === list.names.length) return;
    const shown = document.createElement("span");
    shown.className = "found";
    shown.append(", including ");
    for (const [n, { name }] of names.slice(0, 3).entries()) {
      const one = document.createElement("bdi");
      one.textContent = name;
      shown.append(n ? ", " : "", one);
    }
    if (names.length > 3) shown.append(` and ${names.length - 3} more`);
    place.append(shown);
  };

  const apply = () => {
    items ??= read();
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isOn = wanted.length > 0 || status !== "";
    for (const { item, has, head, rows, counts } of items) {
      const isOther = status !== "" && item.matches(".check") && item.dataset.status !== status;
      item.hidden = isOther || !wanted.every(has);
      // Of a table the rows that have the words, if there are any: the words may be elsewhere in the item.
      const rest = wanted.filter((word) => !head.includes(word));
      const fits = rows.map((row) => rest.every(row.has));
      rows.forEach(({ row }, n) => (row.hidden = fits.includes(true) && !fits[n]));
      for (const one of counts) name(one, item.hidden ? [] : wanted);
    }
    for (const stage of main.querySelectorAll(".stage")) {
      const isEmpty = !stage.querySelector(".check:not([hidden])");
      stage.hidden = isOn && isEmpty;
      stage.open = isOn && !isEmpty;
    }
    for (const { button, of } of buttons) button.setAttribute("aria-pressed", String(of === status));
    const shown = (what, name) => {
      const all = items.filter(({ item }) => item.matches(what));
      return all.length ? [`${all.filter(({ item }) => !item.hidden).length} of ${all.length} ${name}`] : [];
    };
    said.textContent = isOn ? [...shown(".card", isFleet ? "clusters that are not healthy" : "causes"), ...shown(".check", "checks")].join(", ") : "";
  };
  const choose = (one) => {
    status = one;
    apply();
  };
  words.addEventListener("input", apply);
  // What is printed is all of it: paper does not show that something was filtered.
  let before;
  addEventListener("beforeprint", () => {
    before = [words.value, status];
    words.value = "";
    choose("");
  });
  addEventListener("afterprint", () => {
    words.value = before[0];
    choose(before[1]);
  });

  // A cell of the grid leads to what was found of that node.
  const reveal = (target) => {
    if (target?.closest("[hidden]")) {
      words.value = "";
      choose("");
    }
    for (let at = target; at; at = at.parentElement) if (at.matches("details")) at.open = true;
  };
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!link) return;
    const names = link.closest(".grid tbody tr")?.querySelectorAll("th bdi") ?? [];
    if (names.length === 1 && names[0].textContent !== "cluster") {
      words.value = names[0].textContent;
      choose("");
    }
    reveal(document.getElementById(link.hash.slice(1)));
  });
  const first = main.querySelector("#causes:first-child");
  if (main.querySelector(".card, .check")) first ? first.after(box) : main.prepend(box);
  if (location.hash.length > 1) reveal(document.getElementById(location.hash.slice(1)));
}
