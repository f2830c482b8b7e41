// Another program that shares a team with Bullpen, writing its files the way Claude Code was
// observed to: a directory FILE.lock by proper-lockfile, inboxes by a temporary file and a rename,
// tasks in place.
//
// node peer.js '{"home", "team", "inbox", "tasks": [ids], "acks": FILE, "run", "seed", "changes",
//                "stop": FILE, "only": KIND or null, "dieAt": null or {"point", "change"}}'
//
// After each change, and only then, it appends one line of JSON to FILE. `dieAt` makes it kill
// itself with -9 at a point of its n-th change. A kill from outside could hit it between
// truncating a task and writing it, which loses a file that nobody could have kept; the point
// "truncated" does that on purpose.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const lockfile = require("proper-lockfile");

const options = JSON.parse(process.argv[2]);
const teamDir = path.join(options.home, "teams", options.team);
const taskDir = path.join(options.home, "tasks", options.team);
const inboxFile = path.join(teamDir, "inboxes", `${options.inbox}.json`);
const listLock = path.join(taskDir, ".lock");

// How often the real program tries: about 0.9 s for an inbox, 3 s for tasks.
const INBOX_RETRIES = { retries: 10, minTimeout: 5, maxTimeout: 100, factor: 2 };
const TASK_RETRIES = { retries: 30, minTimeout: 5, maxTimeout: 100, factor: 2 };

const acks = fs.openSync(options.acks, "a");
let state = options.seed >>> 0 || 1;
let number = 0;

function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  state >>>= 0;
  return state % below;
}

function dieIfDue(point) {
  const due = options.dieAt;
  if (due && due.point === point && number >= due.change) {
    process.kill(process.pid, "SIGKILL");
    for (;;);
  }
}

function note(facts) {
  fs.writeSync(acks, `${JSON.stringify(facts)}\n`);
}

function readJson(file) {
  return JSON.parse(fs.readFileSync(file, "utf8"));
}

function makeIfMissing(file, content) {
  try {
    fs.writeFileSync(file, content, { flag: "wx" });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
}

function writeInPlace(file, record) {
  const fd = fs.openSync(file, "w", 0o644);
  dieIfDue("truncated");
  fs.writeSync(fd, JSON.stringify(record, null, 2));
  fs.closeSync(fd);
}

async function locked(file, retries, work) {
  const release = await lockfile.lock(file, { retries });
  dieIfDue("locked");
  const result = work();
  dieIfDue("written");
  await release();
  return result;
}

function send(label) {
  makeIfMissing(inboxFile, "[]");
  return locked(inboxFile, INBOX_RETRIES, () => {
    const entries = readJson(inboxFile);
    const timestamp = new Date().toISOString();
    entries.push({ from: "node", text: label, timestamp, read: false });
    const temporary = `${inboxFile}.tmp.${crypto.randomBytes(4).toString("hex")}`;
    fs.writeFileSync(temporary, JSON.stringify(entries, null, 2));
    dieIfDue("staged");
    fs.renameSync(temporary, inboxFile);
    return {};
  });
}

function highestId() {
  const ids = fs.readdirSync(taskDir).map((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? 0);
  let mark = 0;
  try {
    mark = Number(fs.readFileSync(path.join(taskDir, ".highwatermark"), "utf8"));
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  return Math.max(mark, ...ids.map(Number));
}

function create(label) {
  fs.mkdirSync(taskDir, { recursive: true });
  makeIfMissing(listLock, "");
  return locked(listLock, TASK_RETRIES, () => {
    const id = String(highestId() + 1);
    writeInPlace(path.join(taskDir, `${id}.json`), {
      id,
      subject: label,
      description: "",
      status: "pending",
      blocks: [],
      blockedBy: [],
    });
    return { id };
  });
}

function update(label) {
  const id = options.tasks[random(options.tasks.length)];
  const file = path.join(taskDir, `${id}.json`);
  return locked(file, TASK_RETRIES, () => {
    const task = readJson(file);
    task.metadata.log.push(label);
    writeInPlace(file, task);
    return { id };
  });
}

const KINDS = { send, create, update };
const MIX = ["send", "send", "create", "update"];

async function main() {
  while (number < options.changes && !fs.existsSync(options.stop)) {
    number += 1;
    const label = `${options.run}-${number}`;
    const kind = options.only || MIX[random(MIX.length)];
    dieIfDue("idle");
    const began = Date.now();
    for (;;) {
      try {
        const facts = await KINDS[kind](label);
        note({ kind, label, began, ended: Date.now(), ...facts });
        break;
      } catch (error) {
        if (error.code !== "ELOCKED") throw error;
        note({ kind: "refused", label, began, ended: Date.now() });
      }
    }
  }
}

main();
