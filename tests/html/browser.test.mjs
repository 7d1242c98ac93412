// The HTML report in a real browser: its appearance, the actions that it allows, and its accessibility.
//
//   PAGES=directory with the pages   SHOTS=directory for screenshots   CHROMIUM=the browser   MODULES=where npm has
//   installed
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

const { PAGES, SHOTS, CHROMIUM, MODULES } = process.env;
const installed = createRequire(join(MODULES, "node_modules", "x.js"));
const { chromium } = installed("playwright-core");
const axe = readFileSync(installed.resolve("axe-core/axe.min.js"), "utf8");

const WIDTHS = [390, 768, 1440];
const SCHEMES = ["light", "dark"];
const names = readdirSync(PAGES).filter((name) => name.endsWith(".html")).map((name) => name.replace(".html", ""));
const hostile = names.filter((name) => name.startsWith("hostile"));
const large = names.filter((name) => name.startsWith("large") || name === "thousand");
const small = names.filter((name) => !hostile.includes(name) && !large.includes(name));

let browser;
let server;
const asked = [];
before(async () => {
  // A loopback address is as secure a context as a file, and has an origin to which permissions can be granted.
  server = createServer((request, response) => {
    const name = request.url.slice(1);
    if (!names.includes(name)) asked.push(request.url);
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.statusCode = names.includes(name) ? 200 : 404;
    response.end(response.statusCode === 200 ? readFileSync(join(PAGES, `${name}.html`)) : "");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu"],
    // Requests of the browser itself go no further than this machine, where nothing listens.
    proxy: { server: "127.0.0.1:1", bypass: "127.0.0.1" },
  });
});
after(async () => {
  await browser?.close();
  server?.close();
});

const address = (name) => `http://127.0.0.1:${server.address().port}/${name}`;

/// Opens a page and keeps account of everything that it tries.
async function open(name, { width = 1440, scheme = "light", intercept = true, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, ...options });
  const page = await context.newPage();
  const tried = [];
  page.on("request", (request) => request.url() === address(name) || tried.push(`request ${request.url()}`));
  page.on("dialog", (dialog) => (tried.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  page.on("pageerror", (error) => tried.push(`error ${error}`));
  page.on("console", (message) => tried.push(`console ${message.text()}`));
  page.on("popup", () => tried.push("popup"));
  page.on("download", () => tried.push("download"));
  if (intercept) await context.route("**/*", (route) => (route.request().url() === address(name) ? route.continue() : route.abort()));
  await page.goto(address(name));
  return { page, context, tried, close: () => context.close() };
}

/// Documentation is all that links of a page may lead to.
const DOCUMENTS = ["cluster-health.github.io", "docs.siderolabs.com", "etcd.io", "kubernetes.io"];
const isDocument = (to) => to.startsWith("https://") && DOCUMENTS.includes(new URL(to).host);

const unfold = (page) => page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));

for (const name of [...small, hostile[0], large[1]]) {
  test(`${name}: no finding of axe-core, nothing wider than the window`, async () => {
    for (const scheme of SCHEMES) {
      const { page, tried, close } = await open(name, { scheme });
      await page.evaluate(axe);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok((await overflow()) <= 0, `${scheme} ${width}: wider by ${await overflow()}`);
        const path = SHOTS && join(SHOTS, `${name}-${scheme}-${width}.png`);
        if (path) await page.screenshot({ path, fullPage: !large.includes(name) });
      }
      // Pages with a thousand nodes are checked only once, because their rows are all alike.
      const rounds = large.includes(name) ? (scheme === "light" ? [false] : []) : [false, true];
      for (const unfolded of rounds) {
        if (unfolded) await unfold(page);
        const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
        assert.deepEqual(found, [], `${scheme}, ${unfolded ? "unfolded" : "folded"}`);
      }
      await page.setViewportSize({ width: 390, height: 900 });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, "unfolded");
      if (SHOTS && !large.includes(name)) {
        await page.screenshot({ path: join(SHOTS, `${name}-${scheme}-390-unfolded.png`), fullPage: true });
      }
      assert.deepEqual(tried, []);
      await close();
    }
  });
}

test("four: a window of it is the picture in README.md and docs/reports.md", { skip: !SHOTS }, async () => {
  const { page, close } = await open("four");
  await page.screenshot({ path: join(SHOTS, "report.png") });
  await close();
});

for (const name of hostile) {
  test(`${name}: what others have written does nothing`, async () => {
    const { page, tried, close } = await open(name);
    await unfold(page);
    const seen = await page.evaluate(async () => {
      // Triggers everything that reacts to pointing or focus.
      for (const one of document.querySelectorAll("*")) {
        one.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
        one.focus?.();
      }
      await new Promise((next) => requestAnimationFrame(next));
      return {
      ran: globalThis.ran,
      scripts: document.scripts.length,
      // The filter box belongs to the page.
      foreign: [...document.querySelectorAll("img, iframe, object, embed, link, base, form, input, audio, video, template")]
        .filter((one) => !one.closest("main > .filter")).length,
      handlers: [...document.querySelectorAll("*")].filter((one) =>
        [...one.attributes].some(({ name }) => name.startsWith("on") || name === "style" || name === "src")).length,
      links: [...document.links].map((link) => link.getAttribute("href")),
      };
    });
    seen.links = seen.links.filter((to) => !to.startsWith("#") && !isDocument(to));
    assert.deepEqual(seen, { ran: undefined, scripts: 1, foreign: 0, handlers: 0, links: [] });
    assert.deepEqual(tried, []);
    await close();
  });
}

test("if something got in all the same, the policy would stop it", async () => {
  const { page, tried, close } = await open("late", { intercept: false });
  const refused = await page.evaluate(async () => {
    const refused = [];
    document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "globalThis.ran = 1";
    document.body.append(script);
    const holder = document.createElement("div");
    holder.innerHTML = `<img src="/x.png" onerror="globalThis.ran = 1"><i style="color: red" onclick="globalThis.ran = 1">x</i>
      <form action="/x"><button></button></form><iframe src="/x"></iframe><link rel="stylesheet" href="/x.css">`;
    document.body.append(holder);
    holder.querySelector("i").click();
    holder.querySelector("form").submit();
    await fetch("/x").catch(() => {});
    navigator.sendBeacon("/x");
    for (let turn = 0; turn < 50 && new Set(refused).size < 8; turn += 1) {
      await new Promise((next) => requestAnimationFrame(next));
    }
    return { ran: globalThis.ran, refused: [...new Set(refused)].sort() };
  });
  assert.equal(refused.ran, undefined);
  for (const directive of ["connect-src", "form-action", "frame-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr", "style-src-elem"]) {
    assert.ok(refused.refused.includes(directive), `${directive} in ${refused.refused}`);
  }
  // Blocked requests are reported as failed; no server received one.
  assert.deepEqual(tried.filter((what) => !/^(console|request) /.test(what)), []);
  assert.deepEqual(asked, []);
  await close();
});

test("it can be used with a keyboard alone", async () => {
  let { page, close } = await open("late");
  const focused = () => page.evaluate(() => document.activeElement.outerHTML.slice(0, 200));
  await page.keyboard.press("Tab");
  assert.match(await focused(), /to-main/);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await close();
  ({ page, close } = await open("late"));
  const all = await page.evaluate(() => [...document.querySelectorAll("a, button, summary, [tabindex='0']")].filter((one) => one.checkVisibility()).length);
  for (let n = 0; n < all; n += 1) {
    await page.keyboard.press("Tab");
    const shown = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return document.activeElement !== document.body && outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    });
    assert.ok(shown, `the focus is seen on ${await focused()}`);
  }
  const check = page.locator("#checks > section details.check").last();
  await check.locator("summary").focus();
  await page.keyboard.press("Enter");
  assert.equal(await check.getAttribute("open"), "");
  await close();
});

test("a command is copied as it is", async () => {
  const { page, context, tried, close } = await open("late");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const command = page.locator(".command").first();
  const button = command.locator("button");
  assert.match(await button.getAttribute("aria-label"), /^copy talosctl --context prod/);
  await button.focus();
  await page.keyboard.press("Enter");
  await page.locator("footer [role=status]", { hasText: "Copied." }).waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await command.locator("code").textContent());
  assert.deepEqual(tried, []);
  await close();
});

test("a page without a clipboard selects the command", async () => {
  const { page, context, close } = await open("late");
  await context.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined });
    document.execCommand = (what) => ((globalThis.executed = `${what} ${getSelection()}`), true);
  });
  await page.reload();
  const command = page.locator(".command").first();
  await command.locator("button").click();
  await page.locator("footer [role=status]", { hasText: "Copied." }).waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => globalThis.executed), `copy ${await command.locator("code").textContent()}`);
  await close();
});

test("it works without a script", async () => {
  const { page, close } = await open("late", { javaScriptEnabled: false });
  assert.equal(await page.locator("button").count(), 0);
  assert.equal(await page.locator(".filter").count(), 0);
  assert.equal(await page.locator("#causes .card").first().isVisible(), true, "what failed is there");
  const stage = page.locator("#checks details.stage:has(details.check)").last();
  const check = stage.locator("details.check").last();
  assert.equal(await check.locator("summary").isVisible(), false);
  await stage.locator("> summary").click();
  await check.locator("summary").click();
  assert.equal(await check.locator("dl").isVisible(), true);
  await close();
});

for (const javaScriptEnabled of [true, false]) {
  for (const width of [390, 1440]) {
    test(`a cell leads to what was found there: ${width} wide, ${javaScriptEnabled ? "with" : "without"} a script`, async () => {
      const { page, close } = await open("four", { width, javaScriptEnabled });
      const cell = page.locator("#nodes td.fail a").first();
      const target = page.locator((await cell.getAttribute("href")).replaceAll(".", "\\."));
      const check = page.locator("details.check", { has: target });
      if (javaScriptEnabled) await check.evaluate((one) => (one.open = false));
      await cell.click();
      await target.waitFor();
      assert.ok(await target.isVisible(), "unfolded");
      const summary = await check.locator("summary").first().boundingBox();
      const filter = javaScriptEnabled ? await page.locator(".filter").boundingBox() : { y: 0, height: 0 };
      assert.ok(summary.y >= filter.y + filter.height && summary.y < 900, `its head is in sight: ${summary.y}`);
      await close();
    });
  }
}

test("a passed cell leads to a check that is unfolded", async () => {
  const { page, close } = await open("four");
  const cell = page.locator("#nodes td.pass a").first();
  const href = await cell.getAttribute("href");
  await cell.click();
  assert.ok(await page.locator(href.replaceAll(".", "\\.")).isVisible());
  await close();
});

for (const name of ["four", "thousand"]) {
  for (const width of [390, 1440]) {
    test(`${name}: the filter leaves in sight what has all words, ${width} wide`, async () => {
      const { page, tried, close } = await open(name, { width });
      const shown = () => page.locator(".check:not([hidden])").count();
      const all = await shown();
      const box = page.getByRole("searchbox");
      const said = page.locator(".filter [role=status]");
      await box.fill("etcd quorum");
      assert.ok((await shown()) > 0 && (await shown()) < all);
      assert.equal(await page.locator(".check:visible").count(), await shown(), "its stage is unfolded");
      assert.match(await said.textContent(), /^\d+ of \d+ causes, \d+ of \d+ checks$/);
      for (const one of await page.locator(".check:visible").all()) assert.match((await one.textContent()).toLowerCase(), /etcd/);
      await box.fill("no such word anywhere");
      assert.equal(await shown(), 0);
      await box.fill("");
      assert.equal(await shown(), all);
      assert.equal(await said.textContent(), "");
      const failed = page.locator(".counts button.fail");
      await failed.click();
      assert.equal(await failed.getAttribute("aria-pressed"), "true");
      assert.equal(`${await page.locator(".check:visible").count()} failed`, (await failed.textContent()).trim());
      assert.equal(await page.locator(".check:visible:not([data-status=fail])").count(), 0);
      await failed.click();
      assert.equal(await shown(), all);
      assert.deepEqual(tried, []);
      await close();
    });
  }
}

test("many machines in one trouble are one card", async () => {
  const { page, close } = await open("thousand");
  const cards = await page.locator(".card").count();
  assert.ok(cards < 20, `${cards} cards`);
  await close();
});

const unhealthy = ["late", "four", "thousand", "large"];
for (const name of unhealthy) {
  test(`${name}: the first cause is on the first screen of a phone`, async () => {
    const { page, close } = await open(name, { width: 390 });
    const { y, height } = await page.locator(".card h3").first().boundingBox();
    assert.ok(y + height <= 844, `it ends at ${y + height}`);
    await close();
  });
}

// The page of several clusters begins with their grid.
for (const name of [...unhealthy, "fleet"]) {
  for (const width of [390, 1440]) {
    test(`${name}: a card has at most 12 lines, ${width} wide`, async (context) => {
      const { page, close } = await open(name, { width });
      const cards = await page.locator("#causes .card").evaluateAll(lines);
      context.diagnostic(cards.map(({ lines }) => lines).join(", "));
      assert.deepEqual(cards.filter(({ lines }) => lines > 12), []);
      await close();
    });
  }
}

/// Returns the text of each element, and its number of lines that are in sight. A line is text side by side, whatever its elements are.
function lines(elements) {
  return elements.map((element) => {
    const rects = [];
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { currentNode: text } = texts;
      if (!text.data.trim() || !text.parentElement.checkVisibility()) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      let end = Infinity;
      for (let at = text.parentElement; at !== element; at = at.parentElement) {
        if (getComputedStyle(at).overflowY !== "visible") end = Math.min(end, at.getBoundingClientRect().bottom);
      }
      const middle = ({ top, bottom }) => (top + bottom) / 2;
      rects.push(...[...range.getClientRects()].map((rect) => ({ at: middle(rect), bottom: rect.bottom })).filter(({ at }) => at < end));
    }
    rects.sort((a, b) => a.at - b.at);
    let bottom = -Infinity;
    const first = rects.filter((rect) => rect.at > bottom && ((bottom = rect.bottom), true));
    return { lines: first.length, text: element.innerText };
  });
}

test("what a card cuts is in sight once it is unfolded", async () => {
  const { page, close } = await open("thousand", { width: 390 });
  const card = page.locator("article.card").first();
  const isCut = () => card.locator(".cut").evaluateAll((parts) => parts.some((one) => one.scrollHeight > one.clientHeight + 1 || !one.checkVisibility()));
  assert.ok(await isCut());
  await card.locator(".all > summary").click();
  assert.ok(!(await isCut()));
  await close();
});

for (const [name, machine] of [["four", "cp-2"], ["thousand", "w-500"]]) {
  for (const width of [390, 1440]) {
    test(`${name}: a filter for a machine leaves rows that name it, ${width} wide`, async (context) => {
      const { page, close } = await open(name, { width });
      await page.getByRole("searchbox").fill(machine);
      await page.locator(".check:not([hidden])").evaluateAll((all) => all.forEach((one) => (one.open = true)));
      const rows = await page.locator(".check:visible tbody tr:visible, .grid tbody tr:visible").evaluateAll((all) => all.map((row) => row.innerText));
      context.diagnostic(`${rows.length} rows`);
      assert.ok(rows.length >= 15, `${rows.length} rows`);
      assert.deepEqual(rows.filter((row) => !row.includes(machine)), []);
      await page.getByRole("searchbox").fill("");
      assert.equal(await page.locator(".found").count(), 0);
      await close();
    });

    test(`${name}: every number has its noun, ${width} wide`, async () => {
      const { page, close } = await open(name, { width });
      await unfold(page);
      const bare = await page.evaluate(() => {
        const bare = [];
        const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
          const { data, parentElement } = texts.currentNode;
          // A list of names shows what it counts.
          const isOther = parentElement.closest("bdi, dl.facts, .round") !== null;
          if (!isOther && /^\s*\d+\s*$|\d+ more(?! [a-z])/.test(data)) bare.push(parentElement.outerHTML);
        }
        return bare;
      });
      assert.deepEqual(bare, []);
      await close();
    });
  }
}

test("the number of many machines leads to their names", async () => {
  const { page, close } = await open("thousand");
  const check = page.locator("#checks > section .check", { has: page.locator("a.names") }).first();
  await check.locator("> summary").click();
  const link = check.locator("a.names").first();
  const count = parseInt(await link.textContent());
  await link.click();
  const list = page.locator(await link.getAttribute("href"));
  assert.ok(count > 60 && (await list.isVisible()));
  assert.equal(await list.locator("bdi").count(), count);
  await close();
});

for (const name of large) {
  for (const width of [390, 1440]) {
    test(`${name}: less than 6,000 pixels high, ${width} wide`, async (context) => {
      const { page, close } = await open(name, { width });
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      context.diagnostic(`${height} pixels`);
      if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}-whole-${width}.png`), fullPage: true });
      assert.ok(height < 6000, `${height} pixels`);
      await close();
    });
  }
}

test("without the style sheet every mark is a word", async () => {
  const { page, close } = await open("late");
  await page.evaluate(() => document.querySelector("style").remove());
  const row = await page.locator("#nodes tbody tr").first().innerText();
  assert.match(row, /cp-3/);
  assert.match(row, /failed/);
  await close();
});

test("it prints with its problems, and without what paper cannot do", async () => {
  const { page, close } = await open("late", { scheme: "dark" });
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("nav").isVisible(), false);
  assert.equal(await page.locator(".command button").first().isVisible(), false);
  assert.equal(await page.locator(".filter").isVisible(), false);
  for (const card of await page.locator(".card").all()) assert.ok(await card.isVisible());
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  if (SHOTS) await page.pdf({ path: join(SHOTS, "late.pdf"), format: "A4", printBackground: false });
  await close();
});

for (const name of large) {
  test(`${name}: a thousand nodes are shown at once and scroll smoothly`, async (context) => {
    const { page, close } = await open("late");
    const client = await page.context().newCDPSession(page);
    // CPU time, which other work on this machine does not prolong.
    await client.send("Performance.enable", { timeDomain: "threadTicks" });
    await page.context().unroute("**/*");
    await page.goto(address(name));
    await page.evaluate(async () => {
      for (let y = 0; y < document.body.scrollHeight; y += innerHeight * 4) {
        scrollTo(0, y);
        await new Promise((next) => requestAnimationFrame(next));
      }
    });
    const { metrics } = await client.send("Performance.getMetrics");
    const of = (name) => metrics.find((metric) => metric.name === name).value;
    const figures = Object.fromEntries(["TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration", "Nodes"].map((name) => [name, of(name)]));
    context.diagnostic(JSON.stringify(figures));
    assert.ok(figures.TaskDuration < 2, `${figures.TaskDuration} s of work`);
    assert.ok(figures.Nodes < 60_000, `${figures.Nodes} nodes of the document`);
    await close();
  });
}
