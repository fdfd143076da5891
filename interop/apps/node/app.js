// An app without Java, for tests: the services of interop/service-api as plain JSON over HTTP.
//
// node app.js [--port N]      prints `READY http://127.0.0.1:PORT` and ends with its standard input
//     --cert FILE --key FILE  by TLS: `READY https://127.0.0.1:PORT`
//     --ca FILE               refuses clients without a certificate of this authority
//     --socket PATH           on a socket in the file system: `READY unix:PATH`
//
// interop/README.md lists the paths; app.py beside it answers the same. Node's standard library only.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");

const MAX_BODY_BYTES = 64 * 1024 * 1024;
const CHUNK_LEN = 64 * 1024;

/** Whether SIGTERM came: what was begun is finished, and connections close after that. */
let isStopping = false;
/** How many requests are being answered. */
let nActive = 0;

/** What a method throws to answer with an HTTP error. */
class HttpError extends Error {
  constructor(status, message, more = {}) {
    super(message);
    this.status = status;
    this.body = { message, ...more };
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const textOfLen = (len) => ALPHABET.repeat(Math.ceil(len / ALPHABET.length)).slice(0, len);

/** Java's String.hashCode. */
function hashCode(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

function fullPerson(name, age) {
  return {
    name,
    age,
    id: 7000000000,
    active: true,
    score: 1.5,
    // A number would be rounded here.
    balance: "12345678901234567890.99",
    born: "1999-12-31T23:59:59.123Z",
    color: "GREEN",
    address: { street: "Main Street 1", city: "Springfield", zip: 12345 },
    friends: [{ name: "Bob", age: 42, active: false, score: 0 }],
    counts: { one: 1, many: 1000000 },
  };
}

/** How often `note` was called, by key. */
const notes = new Map();

// The users of `UserService`.

const users = new Map();
let nextId = 1;
for (const name of ["Ann", "Ben", "Cleo"]) save({ name, age: 20 });

function save(user) {
  if (!user || !user.name) throw new HttpError(422, "a user needs a name", { code: 422 });
  const saved = { ...user, id: nextId++ };
  users.set(saved.id, saved);
  return saved;
}

function find(id) {
  const user = users.get(Number(id));
  if (!user) throw new HttpError(404, `no user ${id}`);
  return user;
}

function list(name, limit) {
  const wanted = [...users.values()].filter((user) => user.name.startsWith(name || ""));
  return wanted.slice(0, limit === undefined ? undefined : Number(limit));
}

function replace(id, user) {
  find(id);
  const replaced = { ...user, id: Number(id) };
  users.set(replaced.id, replaced);
  return replaced;
}

function status(code) {
  if (Number(code) >= 400) throw new HttpError(Number(code), `status ${code}`);
  return `status ${code}`;
}

const userService = {
  find: (_, id) => find(id),
  list: (_, name, limit) => list(name, limit),
  save: (_, user) => save(user),
  replace: (_, id, user) => replace(id, user),
  remove: (_, id) => users.delete(Number(id)),
  status: (_, code) => status(code),
};

/** Tells the overloads apart by the types that the request names. */
function echo(call, ...args) {
  if (args.length === 2) return `${args[0]} and ${args[1]}`;
  const type = (call.headers["x-dubbo-parameter-types"] || "").trim();
  if (type === "long") return -args[0];
  if (type === "double") return args[0] / 2;
  return typeof args[0] === "string" ? `String ${args[0]}` : args[0];
}

const typesService = {
  add: (_, left, right) => left + right,
  attachments: (call) => attachmentsOf(call.headers),
  echo,
  fail: (_, message) => {
    throw new HttpError(422, message, { code: 42 });
  },
  failUnchecked: (_, message) => {
    throw new HttpError(500, message);
  },
  makePerson: (_, name, age) => fullPerson(name, age),
  note: (_, key) => {
    notes.set(key, (notes.get(key) ?? 0) + 1);
    return null;
  },
  noted: (_, key) => notes.get(key) ?? 0,
  nothing: () => null,
  nullText: () => null,
  replyWithAttachment: (call, name, value) => {
    call.reply[`x-dubbo-attachment-${name}`] = value;
    return value;
  },
  sleep: async (_, ms) => {
    await sleep(ms);
    return ms;
  },
  textOfLen: (_, len) => textOfLen(len),
  twins: (_, person) => [person, person],
  variant: (call) => {
    const group = call.headers["x-dubbo-service-group"];
    return group ? `${group}/${call.headers["x-dubbo-service-version"]}` : "plain";
  },
};

/** Methods of `TypesService` that return their argument. The text is returned as it came: numbers
 * that JavaScript would round stay what they are. */
const ECHOES = new Set(
  ("text bool int8 int16 int32 int64 float32 float64 char16 boxedBool boxedInt boxedLong " +
    "boxedDouble decimal bigInteger date dateTime color bytes int32s int64s textArray texts " +
    "textSet counts anyMap any person people").split(" "),
);

/** What answers `POST /{interface}/{method}`. Each method gets the call, then its arguments. */
const SERVICES = {
  "org.dubmesh.interop.TypesService": typesService,
  "org.dubmesh.interop.UserService": userService,
  "com.alibaba.dubbo.performance.demo.provider.IHelloService": { hash: (_, text) => hashCode(text) },
};

/** Answers that no app should give, for who has to cope with them. */
const BROKEN = {
  hang: () => {},
  close: (call) => call.socket.destroy(),
  half: (call) => {
    call.socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[1,");
    call.socket.destroySoon();
  },
  json: (call) => call.send(200, '{"name": "Zo', "application/json"),
  text: (call) => call.send(200, "no JSON at all", "text/plain"),
};

/** The paths besides `/{interface}/{method}`: method, pattern, and what answers. */
const PATHS = [
  ["GET", /^\/users\/(\d+)$/, (call, id) => find(id)],
  ["GET", /^\/users$/, (call) => list(call.query.get("name"), call.query.get("limit") ?? undefined)],
  ["POST", /^\/users$/, (call) => ((call.status = 201), save(JSON.parse(call.body)))],
  ["PUT", /^\/users\/(\d+)$/, (call, id) => replace(id, JSON.parse(call.body))],
  ["DELETE", /^\/users\/(\d+)$/, (call, id) => users.delete(Number(id))],
  ["GET", /^\/status\/(\d+)$/, (call, code) => status(code)],
  ["GET", /^\/sleep\/(\d+)$/, (call, ms) => typesService.sleep(call, Number(ms))],
  ["GET", /^\/text\/(\d+)$/, (call, len) => textOfLen(Number(len))],
  ["GET", /^\/headers$/, (call) => call.headers],
  ["GET", /^\/active$/, () => nActive],
  ["GET", /^\/healthz$/, () => "ok"],
];

function attachmentsOf(headers) {
  const prefix = "x-dubbo-attachment-";
  const names = Object.keys(headers).filter((name) => name.startsWith(prefix));
  return Object.fromEntries(names.map((name) => [name.slice(prefix.length), headers[name]]));
}

/** What a call returns, as JSON text. */
async function answer(call) {
  for (const [method, pattern, handle] of PATHS) {
    const found = call.method === method && pattern.exec(call.path);
    if (found) return JSON.stringify((await handle(call, ...found.slice(1))) ?? null);
  }
  const [, name, method, ...rest] = call.path.split("/");
  const service = SERVICES[name];
  const isEcho = service === typesService && ECHOES.has(method);
  if (call.method !== "POST" || rest.length || !service || !(isEcho || Object.hasOwn(service, method))) {
    throw new HttpError(404, `no ${call.method} ${call.path}`);
  }
  const args = call.body.trim() === "" ? [] : JSON.parse(call.body);
  if (!Array.isArray(args)) throw new HttpError(400, "the body must be an array of arguments");
  if (isEcho) return call.body.trim().slice(1, -1).trim() || "null";
  return JSON.stringify((await service[method](call, ...args)) ?? null);
}

async function readBody(request) {
  const chunks = [];
  let len = 0;
  for await (const chunk of request) {
    len += chunk.length;
    if (len > MAX_BODY_BYTES) throw new HttpError(413, `a body over ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function serve(request, response) {
  const url = new URL(request.url, "http://app");
  // Attachments and the trace go back as they came.
  const reply = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith("x-dubbo-attachment-") || name === "traceparent") reply[name] = value;
  }
  const send = (code, text, type) => {
    const content = Buffer.from(text);
    response.writeHead(code, {
      "content-type": type,
      ...reply,
      // Long answers come in chunks, short ones by their length.
      ...(content.length <= CHUNK_LEN && { "content-length": content.length }),
      ...(isStopping && { connection: "close" }),
    });
    for (let at = 0; at < content.length; at += CHUNK_LEN) response.write(content.subarray(at, at + CHUNK_LEN));
    response.end();
  };
  const call = {
    method: request.method,
    path: decodeURIComponent(url.pathname),
    query: url.searchParams,
    headers: request.headers,
    body: "",
    status: 200,
    socket: request.socket,
    reply,
    send,
  };
  nActive++;
  try {
    call.body = await readBody(request);
    const broken = BROKEN[call.path.replace(/^\/broken\//, "")];
    if (broken && call.path.startsWith("/broken/")) return broken(call);
    const text = await answer(call);
    send(call.status, text, "application/json");
  } catch (error) {
    const isOurs = error instanceof HttpError;
    const code = isOurs ? error.status : error instanceof SyntaxError ? 400 : 500;
    send(code, JSON.stringify(isOurs ? error.body : { message: String(error) }), "application/json");
  } finally {
    nActive--;
  }
}

const OPTIONS = ["port", "cert", "key", "ca", "socket"];
const options = {};
for (let at = 2; at < process.argv.length; at += 2) {
  const name = process.argv[at].replace(/^--/, "");
  if (!OPTIONS.includes(name) || process.argv[at + 1] === undefined) {
    console.error("usage: node app.js [--port N | --socket PATH] [--cert FILE --key FILE [--ca FILE]]");
    process.exit(2);
  }
  options[name] = process.argv[at + 1];
}
const settings = { keepAliveTimeout: 600_000 };
const file = (name) => options[name] && fs.readFileSync(options[name]);
const server = options.cert
  ? https.createServer(
      { ...settings, cert: file("cert"), key: file("key"), ca: file("ca"), requestCert: Boolean(options.ca) },
      serve,
    )
  : http.createServer(settings, serve);
if (options.socket) {
  server.listen(options.socket, () => console.log(`READY unix:${options.socket}`));
} else {
  server.listen(Number(options.port ?? 0), "127.0.0.1", () => {
    console.log(`READY ${options.cert ? "https" : "http"}://127.0.0.1:${server.address().port}`);
  });
}
process.on("SIGTERM", () => {
  isStopping = true;
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
process.stdin.on("end", () => process.exit(0)).resume();
