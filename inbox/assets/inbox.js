// What the pages do beyond forms and links: keys, live updates, notifications, times. All else works without it.
"use strict";

const base = document.body.dataset.base;
const list = document.getElementById("list");
const card = document.getElementById("card");
const answer = document.getElementById("answer");
const $ = (selector) => document.querySelector(selector);

// say tells something in the live region, which a screen reader reads out.
function say(text, kind = "told") {
  const p = document.createElement("p");
  p.className = kind;
  p.textContent = text;
  document.getElementById("told").replaceChildren(p);
}

// Keys

function move(step) {
  const links = [...document.querySelectorAll(".row h2 a")];
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

function go(...selectors) {
  for (const selector of selectors) {
    const found = $(selector);
    if (found) {
      found.closest("details")?.setAttribute("open", "");
      found.focus();
      found.scrollIntoView({ block: "center" });
      return;
    }
  }
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: () => go("#answer-form [value=accept]"),
  d: () => go("#answer-form [value=decline]"),
  e: () => go(
    "#answer-form .wrong :is(input, select, textarea)",
    "#answer-form .field :is(input:checked, input:not([type=radio]), select, textarea)",
  ),
  u: () => location.assign(base),
  n: () => $(".next a")?.click(),
  "/": () => list ? go("#search") : location.assign(base),
  "?": () => location.assign(base + "help"),
};

document.addEventListener("keydown", (event) => {
  const writes = event.target.closest?.("input:not([type=radio], [type=checkbox]), select, textarea, [contenteditable]");
  if (event.key === "Escape" && writes) {
    writes.blur();
    return;
  }
  if (writes || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
  const does = keys[event.key];
  if (does) {
    event.preventDefault();
    does();
  }
});

// What somebody writes is not lost

const person = document.body.dataset.person;
const forms = () => [...(card?.querySelectorAll("form") ?? [])];
const isOpen = () => answer !== null && "open" in answer.dataset;

// isTouched reports whether a control shows something other than it did when the page came.
const isTouched = (field) => field.validity?.badInput // what the browser cannot read has no value
  || (field.options ? field.selectedIndex !== Math.max([...field.options].findIndex((o) => o.defaultSelected), 0)
    : field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
      : "defaultValue" in field && field.type !== "hidden" && field.value !== field.defaultValue);

// isUnsent reports whether a form has what the inbox has not taken: written since the page came, or refused.
const isUnsent = (form) => form.id === card?.dataset.refused || [...form.elements].some(isTouched);

// put replaces a part of the page by a newer one, unless something in it is not sent.
function put(part, next) {
  if ([...part.querySelectorAll("form")].some(isUnsent)) return false;
  part.replaceChildren(...document.adoptNode(next).childNodes);
  return true;
}

// Drafts are what is written in a tab, by the person, the page and the form. They outlast the page, but not the tab.
const drafts = "askback draft ";
const draftOf = (id) => drafts + JSON.stringify([person, location.pathname, id]);

function saveDrafts() {
  try {
    for (const form of forms()) {
      if (isUnsent(form)) sessionStorage.setItem(draftOf(form.id), JSON.stringify([...form.elements].flatMap(saved)));
      else sessionStorage.removeItem(draftOf(form.id));
    }
  } catch { /* the browser keeps nothing, or no more */ }
}

// saved is a control in a draft: its ID, its value, and how somebody reads it.
function saved(field) {
  if (!field.id || field.type === "fieldset") return [];
  const label = field.labels?.[0]?.firstChild?.textContent ?? "";
  if (field.type === "checkbox" || field.type === "radio") {
    const legend = field.closest("fieldset").querySelector("legend").firstChild.textContent;
    return [[field.id, field.checked, field.checked ? `${legend}: ${label}` : ""]];
  }
  const reads = field.selectedOptions ? field.selectedOptions[0]?.textContent : field.value;
  return [[field.id, field.value, label && reads ? `${label}: ${reads}` : ""]];
}

function restoreDrafts() {
  const done = new URLSearchParams(location.search).get("done");
  const sentBy = { claim: "claim-form", release: "claim-form", handover: "handover-form", extend: "extend-form" };
  if (done) sessionStorage.removeItem(draftOf(sentBy[done] ?? "answer-form"));
  sessionStorage.removeItem(draftOf(card.dataset.refused)); // the page has it
  for (const key of Object.keys(sessionStorage).filter((k) => k.startsWith(drafts))) {
    const [whose, page, id] = JSON.parse(key.slice(drafts.length));
    if (whose !== person) sessionStorage.removeItem(key); // somebody else uses the tab now
    else if (page === location.pathname) restore(document.getElementById(id), JSON.parse(sessionStorage.getItem(key)));
  }
}

// restore fills a form in with a draft. Without the form it is a text to read and copy.
function restore(form, draft) {
  if (form) {
    for (const [id, value] of draft) {
      const field = document.getElementById(id);
      if (!field) continue;
      if (typeof value === "boolean") field.checked = value;
      else field.value = value;
    }
    form.closest("details")?.setAttribute("open", "");
    say("What you had written here is back. If you had sent it, the votes say whether it is recorded.", "note");
    return;
  }
  const title = document.createElement("h2");
  title.textContent = "What you had written here";
  const text = document.createElement("pre");
  text.textContent = draft.map(([, , reads]) => reads).filter(Boolean).join("\n");
  answer.append(title, text);
}

if (card) {
  try {
    restoreDrafts();
  } catch { /* the browser keeps nothing, or something that is not ours */ }
  addEventListener("pagehide", saveDrafts);
  document.addEventListener("visibilitychange", () => { if (document.hidden) saveDrafts(); });
}

// Whether the inbox takes an answer now

let sending = false; // a form of the card
let leaving = false; // the page, with nothing that would be lost
let trouble = ""; // why nothing can be sent, or ""
let looking = null;
let later = 0; // the timer of the next look

function setButtons() {
  const off = sending || trouble !== "" || !isOpen();
  card?.querySelectorAll("button").forEach((button) => { button.disabled = off; });
}

// notice says something beside the buttons or, on a page without them, at its top.
function notice(text, link, kind = "problem") {
  document.getElementById("notice")?.remove();
  if (!text) return;
  const p = document.createElement("p");
  p.id = "notice";
  p.className = kind;
  p.setAttribute("role", "alert");
  p.textContent = text;
  if (link) {
    const a = document.createElement("a");
    a.href = location.pathname;
    a.target = "_blank";
    a.textContent = link;
    p.append(" ", a);
  }
  const buttons = $("#answer-form .buttons");
  if (buttons) buttons.before(p);
  else document.getElementById("told").replaceChildren(p);
}

const notices = {
  away: ["The inbox cannot be reached. What you have written stays here. The buttons are back when it can."],
  out: ["You are signed out. What you have written stays here.", "Sign in in a new tab, and come back here"],
  other: [`You are signed in as somebody else. This page is ${person}'s, and so is what is written here.`,
    "Open it as who you are now"],
};

// ask asks the inbox whether it is there and still knows the person: "" says so, and otherwise the name of a notice.
async function ask() {
  let response;
  try {
    response = await fetch(base + "api/whoami", { redirect: "manual", signal: AbortSignal.timeout(10_000) });
    if (response.status >= 500) return "away";
    if (response.type === "opaqueredirect" || response.status === 401) return "out";
    if (!response.ok) return "";
  } catch {
    return "away";
  }
  const is = await response.json().catch(() => null); // a proxy may answer with a page of its own
  return is === null ? "out" : is.name === person ? "" : "other";
}

// look shows whether an answer can be sent, and looks again until it can.
function look() {
  looking ??= ask().then((is) => {
    looking = null;
    const was = trouble;
    trouble = is;
    if (is !== was && (isOpen() || !card)) notice(...(notices[is] ?? [""]));
    setButtons();
    if (is) {
      clearTimeout(later);
      later = setTimeout(() => { if (!document.hidden) look(); }, 2000 + Math.random() * 1000);
    } else if (was) {
      say("The inbox can be reached again.");
      listen();
    }
    return is;
  });
  return looking;
}
addEventListener("online", look);
addEventListener("offline", look);
addEventListener("focus", () => { if (trouble) look(); });
document.addEventListener("visibilitychange", () => { if (trouble && !document.hidden) look(); });

// A form of the card is sent without leaving it, so that what is written stays where nobody takes it.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.closest("#card")) {
    leaving = true;
    return;
  }
  event.preventDefault();
  if (!sending) send(form, event.submitter);
});

const unknown = "Your answer may be recorded or not. Send it again: the same answer counts once.";

async function send(form, button) {
  const body = new URLSearchParams(new FormData(form));
  if (button) body.set(button.name, button.value);
  sending = true;
  setButtons();
  let response = null;
  let text = "";
  try {
    response = await fetch(form.action, { method: "POST", body, headers: { Prefer: "return=minimal" }, redirect: "manual",
      signal: AbortSignal.timeout(30_000) });
    text = await response.text();
  } catch {
    response = null;
  }
  if ([204, 409, 422].includes(response?.status)) {
    leaving = true;
    setTimeout(() => { leaving = sending = false; setButtons(); }, 10_000); // the browser may have been told to stop
    if (response.status === 204) {
      location.assign(`${location.pathname}?done=${body.get("do")}`);
      return;
    }
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "do", value: body.get("do") }));
    form.submit(); // the page of the refusal has everything that was written
    return;
  }
  sending = false;
  setButtons();
  const is = await look();
  if (!isOpen() || is === "out" || is === "other") return;
  if (!response || response.status >= 500) notice([...(notices[is] ?? []), unknown].join(" "));
  else if (!is) notice(said(text));
}

// said is what a response says to people.
function said(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  return (page.querySelector("#main > p") ?? page.body).textContent.trim().slice(0, 300);
}

addEventListener("pageshow", () => {
  leaving = sending = false;
  setButtons();
});
addEventListener("beforeunload", (event) => {
  if (!leaving && isOpen() && forms().some(isUnsent)) event.preventDefault();
});

// Live updates

// replace puts the parts of a newer page in the place of those shown, and keeps the focus and what is written.
function replace(newer) {
  document.title = newer.title;
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = newer.getElementById(part.id);
    if (next && part === answer) {
      refreshAnswer(next);
      continue;
    }
    if (!next || next.textContent === part.textContent) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const folds = [...part.querySelectorAll("details")].map((d) => d.open);
    put(part, next);
    part.querySelectorAll("details").forEach((d, i) => { d.open = folds[i] ?? d.open; });
    if (focused) [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
  }
  times();
  compareAll();
}

// refreshAnswer shows the form of another proposal, or that the question has ended. What is written stays.
function refreshAnswer(next) {
  if (!isOpen()) return;
  if ("open" in next.dataset) {
    const shown = (part) => part.querySelector("form").elements.shown.value;
    if (shown(answer) !== shown(next) && (answer.contains(document.activeElement) || !put(answer, next))) {
      say("Somebody has proposed another answer meanwhile. What you have written is still here.", "note");
    }
    setButtons();
    return;
  }
  const why = [...next.querySelectorAll(":scope > :is(h2, p:not(.next))")].map((e) => e.textContent.replace(/\.?$/, ".")).join(" ");
  delete answer.dataset.open;
  const rest = $(".rest");
  if (rest && !forms().some((form) => rest.contains(form) && isUnsent(form))) rest.remove();
  if (put(answer, next)) say(why + " It can no longer be answered.", "note");
  else notice(why + " It can no longer be answered. What you have written stays here.", "", "note");
  setButtons();
}

let waits = false;
async function refresh() {
  if (waits) return;
  waits = true; // several changes at about the same time are one
  await new Promise((resolve) => setTimeout(resolve, 150 + Math.random() * 350));
  waits = false;
  const before = waiting();
  const address = new URL(location.href);
  address.searchParams.delete("done");
  const response = await fetch(address, { headers: { Accept: "text/html" }, redirect: "manual" }).catch(() => null);
  const page = response?.ok ? await response.text().catch(() => null) : null;
  if (page === null) {
    look();
    return;
  }
  replace(new DOMParser().parseFromString(page, "text/html"));
  tell([...waiting()].filter(([id]) => !before.has(id)));
}

// waiting are the questions of the list that waits for the person, by their names and keys.
function waiting() {
  const rows = list && list.dataset.tab === "" ? list.querySelectorAll(".row") : [];
  return new Map([...rows].map((row) => [row.dataset.name + " " + row.dataset.key, row.querySelector("h2 a")]));
}

let events = null;
function listen() {
  events?.close();
  if (!list && !card) return;
  events = new EventSource(base + "events");
  events.addEventListener("refresh", refresh); // at the beginning, and when something may have been missed
  events.addEventListener("question", (event) => {
    if (list || JSON.parse(event.data).name === card.dataset.name) refresh();
  });
  events.addEventListener("error", async (event) => {
    const ended = event.target.readyState === EventSource.CLOSED; // otherwise the browser comes again by itself
    if (await look() === "" && ended && event.target === events) setTimeout(listen, 5000);
  });
}
listen();
addEventListener("pagehide", () => events?.close());
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// Notifications, for those who ask for them

const notify = document.getElementById("notify");
function offer() {
  if (!notify || !("Notification" in window)) return;
  notify.hidden = Notification.permission !== "default";
}
notify?.addEventListener("click", async () => {
  const permission = await Notification.requestPermission();
  if (permission === "granted") say("You will be told of new questions while this page is open.");
  else say("The browser does not allow it.", "note");
  offer();
});

function tell(fresh) {
  if (fresh.length === 0) return;
  say(fresh.length === 1 ? "A new question waits: " + fresh[0][1].textContent : fresh.length + " new questions wait.");
  if (!("Notification" in window) || Notification.permission !== "granted" || !document.hidden) return;
  for (const [id, link] of fresh.slice(0, 3)) {
    const shown = new Notification(link.textContent, { tag: id, body: $(".site")?.textContent });
    shown.addEventListener("click", () => {
      window.focus();
      location.assign(link.href);
    });
  }
}

// Times

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
function span(seconds) {
  const i = units.findIndex(([, size]) => seconds >= size);
  if (i < 0) return "1 s";
  const [name, size] = units[i];
  const rest = i < 2 ? Math.floor(seconds % size / units[i + 1][1]) : 0;
  return `${Math.floor(seconds / size)} ${name}` + (rest ? ` ${rest} ${units[i + 1][0]}` : "");
}

// clock is the time of the day at this place, and the day unless it is today.
function clock(at) {
  const day = at.toDateString() === new Date().toDateString() ? {} : { weekday: "short", day: "numeric", month: "short" };
  return at.toLocaleString("en-GB", { ...day, hour: "2-digit", minute: "2-digit" });
}

// times brings the distances up to date, and shows the times of this place.
function times() {
  for (const time of document.querySelectorAll("time")) {
    const at = Date.parse(time.dateTime);
    const seconds = Math.floor((at - Date.now()) / 1000);
    const distance = seconds > 0 ? "in " + span(seconds) : span(-seconds) + " ago";
    time.textContent = "clock" in time.dataset ? `${clock(new Date(at))}, ${distance}` : distance;
    time.title = new Date(at).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "long" });
  }
}

// Edited arguments

// linesOf are the lines of arguments as they are compared. A line that was only moved is no change.
const linesOf = (text) => text.split("\n").map((line) => line.trim().replace(/,$/, "")).filter(Boolean);

// compare says below the edited arguments what is changed in them, and what keeps them from being sent.
function compare(field) {
  let error = "";
  try {
    const value = JSON.parse(field.value);
    if (value === null || typeof value !== "object" || Array.isArray(value)) error = "The arguments must be a JSON object.";
  } catch (e) {
    error = `The arguments are not valid JSON: ${e.message}`;
  }
  field.setCustomValidity(error);
  const before = linesOf(field.dataset.original);
  const after = linesOf(field.value);
  const lines = [...before.filter((line) => !after.includes(line)).map((line) => ["del", line]),
    ...after.filter((line) => !before.includes(line)).map((line) => ["ins", line])];
  let shown = field.nextElementSibling;
  if (!shown) {
    shown = document.createElement("figure");
    shown.className = "edit";
    field.after(shown);
  }
  const title = document.createElement("figcaption");
  title.textContent = error || (lines.length ? "Changes of the arguments" : "The arguments are not changed.");
  const text = document.createElement("pre");
  for (const [mark, line] of lines.slice(0, 400)) {
    const part = document.createElement(mark);
    part.textContent = line;
    text.append(part, "\n");
  }
  shown.replaceChildren(title, ...(lines.length ? [text] : []));
}

function compareAll() {
  for (const field of document.querySelectorAll("textarea.json")) {
    if (field.value !== field.dataset.original || field.nextElementSibling) compare(field);
  }
}
document.addEventListener("input", (event) => {
  if (event.target.matches("textarea.json")) compare(event.target);
});

offer();
times();
compareAll();
setInterval(times, 15_000);
document.getElementById("problem")?.focus();
