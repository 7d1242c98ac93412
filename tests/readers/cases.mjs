// The results of npm's JUnit readers for documents: one JSON object, by reader and by file.
//
//   MODULES=where npm has installed node cases.mjs FILE...
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const installed = createRequire(join(process.env.MODULES, "node_modules", "x.js"));
const { parse: results } = installed("test-results-parser");
const { parse: convert } = await import(pathToFileURL(installed.resolve("junit2json")));

const readers = {
  async junit2json(file) {
    const seen = await convert(readFileSync(file, "utf8"));
    const cases = seen.testsuite.flatMap((suite) => suite.testcase);
    const text = (children) => children[0].inner ?? "";
    return {
      counts: { tests: seen.tests, failures: seen.failures, errors: seen.errors },
      cases: cases.map((it) => {
        if (it.failure) return { name: it.name, status: "failed", text: text(it.failure) };
        if (it.error) return { name: it.name, status: "errored", text: text(it.error) };
        if (it.skipped) return { name: it.name, status: "skipped", text: text(it.skipped) };
        return { name: it.name, status: "passed" };
      }),
    };
  },
  // This reader does not distinguish failures from errors, and does not count skipped cases.
  async "test-results-parser"(file) {
    const seen = results({ type: "junit", files: [file] });
    const status = { PASS: "passed", FAIL: "bad", SKIP: "skipped" };
    // Its own sum takes skipped cases from an attribute of `testsuites` that Jenkins's schema does not allow.
    const sum = (count) => seen.suites.reduce((all, suite) => all + count(suite), 0);
    return {
      counts: { run: sum((it) => it.total), bad: sum((it) => it.failed + it.errors), skipped: sum((it) => it.skipped) },
      cases: seen.suites.flatMap((suite) => suite.cases).map((it) => ({ name: it.name, status: status[it.status], text: it.stack_trace })),
    };
  },
};

const seen = {};
for (const [name, read] of Object.entries(readers)) {
  seen[name] = {};
  for (const file of process.argv.slice(2)) seen[name][file] = await read(file);
}
process.stdout.write(JSON.stringify(seen));
