// JupyterLite's kernel in Node, in place of the web worker that it has in a page.
// node kernel.mjs CELLS FOLDER=ROOT...: runs the cells of a JSON list, and writes what each shows as a JSON list.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [cells, pyodide, ...folders] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ stdout: () => {}, stderr: (line) => console.error(line) });
folders.forEach((root, number) => {
  const mounted = `/mounted/${number}`;
  python.FS.mkdirTree(mounted);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, mounted);
});
python.globals.set("count", folders.length);
python.runPython(fs.readFileSync(new URL("worker.py", import.meta.url), "utf8"));
const shown = [];
for (const cell of JSON.parse(fs.readFileSync(cells, "utf8"))) {
  shown.push(JSON.parse(await python.globals.get("run")(cell)));
}
console.log(JSON.stringify(shown));
process.exit();
