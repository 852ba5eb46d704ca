// Reads a script without running it: types taken away, the signature of `main`, or where and why the script is refused.
"use strict";
const fs = require("node:fs");
const module_ = require("node:module");
const vm = require("node:vm");

const { source, typescript, stripper } = JSON.parse(fs.readFileSync(0, "utf8"));

class Refused extends Error {
  constructor(line, column, message) {
    super(message);
    Object.assign(this, { line, column });
  }
}

// Node's own parser, where it can be had; without it only Node's word on the syntax is.
function parser() {
  try {
    return require("internal/deps/acorn/acorn/dist/acorn");
  } catch {
    return null;
  }
}

function strip(text) {
  try {
    if (module_.stripTypeScriptTypes) return module_.stripTypeScriptTypes(text, { mode: "strip" });
    return require(stripper).transformSync(text, { mode: "strip-only", module: true }).code;
  } catch (error) {
    const said = String(error?.message ?? error) + "\n" + String(error?.snippet ?? error?.stack ?? "");
    const place = /^ *(\d+) \|.*\n *:( *)\^/m.exec(said);
    const what = /^\s*x (.*)/m.exec(said)?.[1] ?? said.split("\n")[0].trim();
    const gutter = place ? place[0].split("\n")[0].indexOf("|") + 1 : 0;
    const column = place ? Math.max(1, place[0].split("\n").pop().indexOf("^") - gutter) : 1;
    throw new Refused(place ? Number(place[1]) : Number(error?.startLine ?? 1), place ? column : 1, what);
  }
}

function checkSyntax(text) {
  const isModule = /^\s*(import|export)\b/m.test(text);
  try {
    if (isModule) new vm.SourceTextModule(text);
    else new vm.Script(module_.wrap(text));
  } catch (error) {
    const line = Number(/:(\d+)\n/.exec(error.stack)?.[1] ?? 1);
    throw new Refused(line, 1, error.message);
  }
  return isModule;
}

function parse(acorn, text) {
  const options = { ecmaVersion: "latest", locations: true, allowHashBang: true };
  try {
    return [acorn.parse(text, { ...options, sourceType: "script", allowReturnOutsideFunction: true }), false];
  } catch (script) {
    try {
      return [acorn.parse(text, { ...options, sourceType: "module" }), true];
    } catch (error) {
      const worse = /^\s*(import|export)\b/m.test(text) ? error : script;
      throw new Refused(worse.loc?.line ?? 1, (worse.loc?.column ?? 0) + 1, worse.message.replace(/ \(\d+:\d+\)$/, ""));
    }
  }
}

const isFunction = (node) => /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node?.type);

// The function that a top-level name stands for; null if that shows only when it runs.
function named(tree, name) {
  for (const statement of tree.body) {
    const node = statement.declaration ?? statement;
    if (node.type === "FunctionDeclaration" && node.id?.name === name) return node;
    if (node.type === "VariableDeclaration") {
      for (const each of node.declarations) if (each.id.name === name) return isFunction(each.init) ? each.init : null;
    }
  }
  return null;
}

const resolve = (tree, node) => (isFunction(node) ? node : node?.type === "Identifier" ? named(tree, node.name) : null);

// {main} where there is one, with null for a function that cannot be looked into.
function findInModule(tree) {
  for (const node of tree.body) {
    if (node.type === "ExportDefaultDeclaration") return { main: resolve(tree, node.declaration) };
  }
  for (const node of tree.body) {
    if (node.type !== "ExportNamedDeclaration") continue;
    for (const each of node.specifiers) {
      const name = each.exported.name ?? each.exported.value;
      if (name === "default" || name === "main") return { main: node.source ? null : named(tree, each.local.name) };
    }
    if (node.declaration?.id?.name === "main") return { main: node.declaration };
    if (node.declaration?.declarations?.some((each) => each.id.name === "main")) return { main: named(tree, "main") };
  }
  return null;
}

function findInScript(tree, text) {
  let found = null;
  for (const { expression } of tree.body) {
    if (expression?.type !== "AssignmentExpression") continue;
    const target = text.slice(expression.left.start, expression.left.end).replace(/\s/g, "");
    if (["module.exports", "exports.main", "exports.default", "module.exports.main", "module.exports.default"].includes(target)) {
      found = { main: resolve(tree, expression.right) };
    }
  }
  return found ?? (/\bexports\b/.test(text) ? { main: null } : null);
}

function parameters(main, text) {
  const slice = (node) => text.slice(node.start, node.end);
  let [first] = main.params;
  if (first?.type === "AssignmentPattern") first = first.left;
  if (first === undefined) return [];
  if (first.type !== "ObjectPattern") return [{ name: slice(first), annotation: null, default: null, kind: "rest" }];
  return first.properties.map((each) => {
    if (each.type === "RestElement") return { name: slice(each.argument), annotation: null, default: null, kind: "rest" };
    const name = each.computed ? slice(each.key) : each.key.name ?? String(each.key.value);
    const preset = each.value.type === "AssignmentPattern" ? slice(each.value.right) : null;
    return { name, annotation: null, default: preset, kind: "keyword" };
  });
}

function inspect() {
  const text = typescript ? strip(source) : source;
  const info = { parameters: [], signature_known: false, is_async: false, doc: null, returns: null };
  const acorn = parser();
  if (acorn === null) {
    checkSyntax(text);
  } else {
    const [tree, isModule] = parse(acorn, text);
    const found = isModule ? findInModule(tree) : findInScript(tree, text);
    if (found === null) throw new Refused(1, 1, "the script exports no function `main`: export default async function main(args, viat) { … }");
    if (found.main !== null) {
      Object.assign(info, { parameters: parameters(found.main, text), signature_known: true, is_async: found.main.async });
    }
  }
  return { script: { info, code: typescript ? text : null } };
}

let said;
try {
  said = inspect();
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  const lines = source.split("\n");
  said = { problem: { line: error.line, column: error.column, message: error.message, snippet: lines[error.line - 1] ?? "" } };
}
process.stdout.write(JSON.stringify(said));
