// The text a Node worker starts with: waits for the guardian's go, loads the script, serves one attempt after the other.
// A frame is a little-endian u32 length, one byte of kind, and that many bytes less one of JSON.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const util = require("node:util");
const vm = require("node:vm");
const { createRequire, wrap } = require("node:module");
const { pathToFileURL } = require("node:url");

const MESSAGE_LIMIT = 10_000;
const MAX_DEPTH = 100;
const [protocolFd, cancelFd] = process.argv.slice(-2).map(Number);
const folder = process.cwd();
const work = path.join(folder, "work");
process.argv.splice(1);

class ViatError extends Error {
  constructor(given) {
    const { status = 400, code, message = "", extra = null } = given ?? {};
    if (!Number.isInteger(status)) throw new TypeError(`ViatError: status must be an integer from 400 to 599, not ${shown(status)}`);
    if (status < 400 || status > 599) throw new RangeError(`ViatError: status must be from 400 to 599, not ${status}`);
    if (typeof code !== "string") throw new TypeError(`ViatError: code must be a non-empty string, not ${shown(code)}`);
    if (code === "") throw new RangeError("ViatError: code must not be empty");
    if (typeof message !== "string") throw new TypeError(`ViatError: message must be a string, not ${shown(message)}`);
    super(message);
    Object.assign(this, { status, code, extra });
    try {
      if (extra !== null) encode(extra);
    } catch (wrong) {
      throw new TypeError(`ViatError: extra must be JSON: ${wrong.message}`);
    }
  }
}
ViatError.prototype.name = "ViatError";

class TransportError extends Error {
  constructor(message = "", { retryAfterMs = null } = {}) {
    if (typeof message !== "string") throw new TypeError(`TransportError: message must be a string, not ${shown(message)}`);
    if (retryAfterMs !== null && !(Number.isFinite(retryAfterMs) && retryAfterMs >= 0)) {
      throw new RangeError(`TransportError: retryAfterMs must be a number, 0 or more, not ${shown(retryAfterMs)}`);
    }
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}
TransportError.prototype.name = "TransportError";

class ResourceError extends Error {}
ResourceError.prototype.name = "ResourceError";

class NotJson extends Error {}

function shown(value) {
  const text = util.inspect(value, { depth: 1, breakLength: Infinity });
  return text.length <= 80 ? text : text.slice(0, 77) + "...";
}

function clean(text) {
  text = String(text);
  if (text.length > MESSAGE_LIMIT) text = text.slice(0, MESSAGE_LIMIT) + `… (${text.length - MESSAGE_LIMIT} characters more)`;
  return Buffer.from(text).toString(); // lone surrogates become U+FFFD
}

const STRANGE = [Map, Set, WeakMap, WeakSet, Promise, RegExp, Error, ArrayBuffer];

// Refuses what JSON.stringify would change in silence; `undefined` in an object is left out, as everywhere in JavaScript.
function check(value, where, depth) {
  switch (typeof value) {
    case "string":
      if (/\p{Surrogate}/u.test(value)) throw new NotJson(`${where}: a string holds a lone surrogate, which is not text`);
      return;
    case "number":
      if (!Number.isFinite(value)) throw new NotJson(`${where}: ${value} is not a finite number`);
      return;
    case "boolean":
      return;
    case "object":
      break;
    default:
      throw new NotJson(`${where}: ${typeof value} is not a JSON value: ${shown(value)}`);
  }
  if (value === null) return;
  if (typeof value.toJSON === "function") return check(value.toJSON(), where, depth);
  if (depth >= MAX_DEPTH) throw new NotJson(`${where.slice(0, 60)}…: nested deeper than ${MAX_DEPTH} levels`);
  if (STRANGE.some((kind) => value instanceof kind) || ArrayBuffer.isView(value)) {
    throw new NotJson(`${where}: ${value.constructor?.name ?? "this object"} is not a JSON value: ${shown(value)}`);
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) check(value[at], `${where}[${at}]`, depth + 1);
    return;
  }
  for (const key of Object.keys(value)) {
    if (value[key] === undefined) continue;
    const step = /^[\p{ID_Start}_$][\p{ID_Continue}$]*$/u.test(key) ? `.${key}` : `[${shown(key)}]`;
    if (/\p{Surrogate}/u.test(key)) throw new NotJson(`${where}${step}: a key holds a lone surrogate, which is not text`);
    check(value[key], where + step, depth + 1);
  }
}

function encode(value) {
  if (value === undefined) value = null;
  check(value, "$", 0);
  const data = Buffer.from(JSON.stringify(value));
  if (data.length > limit) throw new NotJson(`the value takes ${data.length} bytes as JSON, more than the limit of ${limit}`);
  return data;
}

function fault(kind, code, message, more = {}) {
  return Buffer.from(JSON.stringify({ kind, code: clean(code), message: clean(message), ...more }));
}

// The class of what was thrown, and its trace in the log.
function failure(error) {
  if (error instanceof ViatError) return fault("user", error.code, error.message, { status: error.status, extra: error.extra });
  if (error instanceof ResourceError) return fault("resource", "resource", error.message);
  writeTrace(error);
  if (error instanceof TransportError) {
    const wait = error.retryAfterMs;
    return fault("transport", "transport", error.message, wait === null ? {} : { retry_after_ms: Math.round(wait) });
  }
  if (error instanceof Error) return fault("exception", error.name || "Error", error.message);
  return fault("exception", typeof error, shown(error));
}

function writeTrace(error) {
  try {
    const text = error instanceof Error ? util.inspect(error) : `thrown: ${shown(error)}`;
    const lines = text.split("\n").filter((line) => !/\(?\[eval\]|^ +at .*node:internal/.test(line));
    process.stderr.write(lines.join("\n").replaceAll(pathToFileURL(folder).href + "/script/", "").replaceAll(folder + "/script/", "") + "\n");
  } catch {
    // an error whose text cannot be had has none
  }
}

// ---- the start: what comes before the script, read while nothing else runs

function readExactly(fd, size) {
  const data = Buffer.allocUnsafe(size);
  let have = 0;
  while (have < size) {
    const got = fs.readSync(fd, data, have, size - have);
    if (got === 0) process.exit(72);
    have += got;
  }
  return data;
}

if (readExactly(cancelFd, 1)[0] !== 0x67) process.exit(71);
const init = readExactly(protocolFd, readExactly(protocolFd, 4).readUInt32LE());
const parts = [];
for (let at = 1; at < init.length;) {
  const end = at + 4 + init.readUInt32LE(at);
  parts.push(init.subarray(at + 4, end));
  at = end;
}
const [name, source, limit, modules] = [parts[0].toString(), parts[1].toString(), Number(parts[2].toString()), parts[3].toString()];

// What is written has left when write returns: the log is whole and in order when the result is sent.
const streams = [process.stdout, process.stderr];
for (const stream of streams) stream._handle?.setBlocking?.(true);

async function flush() {
  for (const stream of streams) {
    if (stream.writableLength > 0) await new Promise((done) => stream.write("", done));
  }
}

// ---- what a script may use of viat

let current = null; // the attempt that runs
let told = null; // the attempt that was last asked to stop
let asking = Promise.resolve(); // one question at a time
let asked = 0;
let answer = null;

function send(kind, data) {
  const head = Buffer.allocUnsafe(5);
  head.writeUInt32LE(data.length + 1, 0);
  head.write(kind, 4, "latin1");
  protocol.write(Buffer.concat([head, data]));
}

function mustBeRunning(what) {
  if (current === null) throw new Error(`viat.${what} works only while an attempt is running`);
}

function ask(kind, question) {
  mustBeRunning(question.what);
  let data;
  try {
    data = encode(question);
  } catch (wrong) {
    throw new TypeError(`viat.${question.what}: ${wrong.message}`);
  }
  asked++;
  const mine = asking.then(() => new Promise((resolve, reject) => {
    answer = (said) => ("refused" in said ? reject(new ResourceError(said.refused)) : resolve(said.value));
    send(kind, data);
  }));
  asking = mine.catch(() => {});
  return mine;
}

const context = {};
const viat = {
  ViatError,
  TransportError,
  ResourceError,
  context,
  get signal() {
    return current === null ? AbortSignal.abort() : current.controller.signal;
  },
  cancelled() {
    return current !== null && current.controller.signal.aborted;
  },
  log(...args) {
    process.stderr.write(util.format(...args) + "\n");
  },
  progress(fraction = null, note = null) {
    if (fraction !== null && !(typeof fraction === "number" && fraction >= 0 && fraction <= 1)) {
      throw new RangeError(`viat.progress: fraction must be a number from 0 to 1, not ${shown(fraction)}`);
    }
    mustBeRunning("progress");
    send("p", Buffer.from(JSON.stringify({ fraction, note: note === null ? null : clean(note) })));
  },
  async defer(workflow, args = {}) {
    if (typeof workflow !== "string" || workflow === "") throw new TypeError(`viat.defer: workflow must be a name, not ${shown(workflow)}`);
    if (args === null || typeof args !== "object" || Array.isArray(args)) throw new TypeError(`viat.defer: args must be an object, not ${shown(args)}`);
    await ask("d", { what: "defer", workflow, args });
  },
  async resource(name, { kind = null } = {}) {
    if (typeof name !== "string" || name === "") throw new TypeError(`viat.resource: name must be a non-empty string, not ${shown(name)}`);
    if (kind !== null && typeof kind !== "string") throw new TypeError(`viat.resource: kind must be a string, not ${shown(kind)}`);
    return ask("q", { what: "resource", name, kind });
  },
};
Object.assign(globalThis, { viat, ViatError, TransportError });

// ---- the script

// `import ... from "viat"` finds these files above the script's own folder.
function layModule() {
  const home = path.join(folder, "node_modules", "viat");
  fs.mkdirSync(home, { recursive: true });
  const names = ["ViatError", "TransportError", "ResourceError", "context", "cancelled", "log", "progress", "defer", "resource"];
  const lines = names.map((each) => `export const ${each} = viat.${each};`);
  fs.writeFileSync(path.join(home, "package.json"), JSON.stringify({ name: "viat", exports: { import: "./index.mjs", require: "./index.cjs" } }));
  fs.writeFileSync(path.join(home, "index.mjs"), `const viat = globalThis.viat;\nexport default viat;\n${lines.join("\n")}\n`);
  fs.writeFileSync(path.join(home, "index.cjs"), "module.exports = globalThis.viat;\n");
}

function isCommonJs() {
  try {
    new vm.Script(wrap(source));
    return true;
  } catch {
    return false;
  }
}

async function load() {
  const commonJs = isCommonJs();
  const home = path.join(folder, "script");
  fs.mkdirSync(home, { recursive: true });
  const file = path.join(home, name + (commonJs ? ".cjs" : ".mjs"));
  fs.writeFileSync(file, source);
  layModule();
  if (modules !== "") fs.symlinkSync(modules, path.join(home, "node_modules"));
  process.chdir(work);
  const exported = commonJs ? createRequire(file)(file) : await import(pathToFileURL(file).href);
  const found = typeof exported === "function" ? exported : exported?.default ?? exported?.main;
  const main = typeof found === "function" ? found : found?.default;
  if (typeof main !== "function") throw new TypeError("the script exports no function: export default async function main(args, viat)");
  return main;
}

// ---- attempts

// A double holds integers up to 2^53: more digits would be changed in silence.
function checkIntegers(text) {
  if (!/\d{16}/.test(text)) return null;
  for (const [digits] of text.replace(/"(?:[^"\\]|\\.)*"/g, '""').matchAll(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    if (/^-?\d+$/.test(digits) && !Number.isSafeInteger(Number(digits))) return digits;
  }
  return null;
}

function finish(mine, kind, data) {
  if (current !== mine) return;
  current = null;
  send(kind, data);
}

async function attempt(text) {
  const call = JSON.parse(text);
  const mine = (current = { id: call.id, controller: new AbortController() });
  if (told === mine.id) mine.controller.abort();
  for (const key of Object.keys(context)) delete context[key];
  Object.assign(context, call.context);
  if (broken !== null) return finish(mine, "x", broken);
  const large = checkIntegers(text);
  if (large !== null) return finish(mine, "x", fault("annotation", "annotation", `${large} is more than a number holds in JavaScript: pass it as a string`));
  const before = asked;
  let kind = "r";
  let data;
  try {
    process.chdir(work);
    const value = await main(call.args, viat);
    if (asked !== before) {
      await asking; // what was asked and not waited for
      await new Promise(setImmediate); // and what came of it
    }
    data = encode(value);
  } catch (error) {
    kind = "x";
    data = error instanceof NotJson ? fault("invalid_output", "invalid_output", `main returned what is not JSON: ${error.message}`) : failure(error);
  }
  await flush();
  finish(mine, kind, data);
}

// Thrown where nobody waits for it: the attempt has failed, and what else runs in here is not known.
function lost(error) {
  if (current === null) {
    writeTrace(error);
    process.exit(1);
  }
  finish(current, "y", failure(error));
}

process.on("uncaughtException", lost);
process.on("unhandledRejection", lost);
process.on("exit", (code) => {
  if (current === null || protocol === null || protocol.writableLength > 0) return;
  const data = fault("exception", "ProcessExit", `the script called process.exit(${code})`);
  const frame = Buffer.alloc(5 + data.length);
  frame.writeUInt32LE(data.length + 1, 0);
  frame.write("y", 4, "latin1");
  data.copy(frame, 5);
  for (let at = 0; at < frame.length;) {
    try {
      at += fs.writeSync(protocolFd, frame, at);
    } catch (error) {
      if (error.code !== "EAGAIN") return;
    }
  }
});

function listen() {
  const whole = [];
  let size = 0;
  protocol.on("data", (chunk) => {
    whole.push(chunk);
    size += chunk.length;
    for (;;) {
      if (size < 4) return;
      if (whole[0].length < 4) whole.splice(0, whole.length, Buffer.concat(whole));
      const length = whole[0].readUInt32LE() + 4;
      if (size < length) return;
      const data = whole.length === 1 ? whole[0] : Buffer.concat(whole);
      whole.splice(0, whole.length);
      size -= length;
      if (size > 0) whole.push(data.subarray(length));
      const text = data.toString("utf8", 5, length);
      if (data[4] === 0x61) answer?.(JSON.parse(text));
      else attempt(text);
    }
  });
  const gone = () => process.kill(process.pid, "SIGKILL");
  protocol.on("end", gone).on("error", gone);
  let line = "";
  const cancel = new net.Socket({ fd: cancelFd, readable: true, writable: false });
  cancel.on("data", (chunk) => {
    const lines = (line + chunk).split("\n");
    line = lines.pop();
    for (const each of lines) {
      // it may come late, when the next attempt runs, or early, before the call itself has been read
      told = each;
      if (current !== null && current.id === told) current.controller.abort();
    }
  });
  cancel.on("end", gone).on("error", gone);
}

let main = null;
let broken = null;
let protocol = null;

load()
  .then((found) => (main = found), (error) => (broken = failure(error)))
  .then(() => {
    protocol = new net.Socket({ fd: protocolFd, readable: true, writable: true });
    send("k", Buffer.from(String(broken === null)));
    listen();
  });
