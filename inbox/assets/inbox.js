// What the pages do beyond forms and links: keys, live updates, notifications, times. All else works without it.
"use strict";

const base = document.body.dataset.base;
const list = document.getElementById("list");
const card = document.getElementById("card");
const answer = document.getElementById("answer");
const $ = (selector) => document.querySelector(selector);

// say tells something in the live region, which a screen reader reads out.
function say(text) {
  const p = document.createElement("p");
  p.className = "told";
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

let sent = false;
const isTouched = (form) => [...(form?.elements ?? [])].some((field) =>
  field.options ? [...field.options].some((o) => o.selected !== o.defaultSelected)
    : field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
      : "defaultValue" in field && field.type !== "hidden" && field.value !== field.defaultValue);

document.addEventListener("submit", (event) => {
  sent = true;
  const button = event.submitter;
  if (button) setTimeout(() => { button.disabled = true; }); // after the form has taken its value
});
addEventListener("pageshow", () => {
  sent = false;
  document.querySelectorAll("button:disabled").forEach((button) => { button.disabled = false; });
});
addEventListener("beforeunload", (event) => {
  if (!sent && isTouched($("#answer-form"))) event.preventDefault();
});

// Live updates

// replace puts the parts of a newer page in the place of those shown, and keeps the focus and what is written.
function replace(newer) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = newer.getElementById(part.id);
    if (!next || next.textContent === part.textContent && part.id !== "answer") continue;
    if (part === answer || part.id === "answer") {
      refreshAnswer(part, next);
      continue;
    }
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const folds = [...part.querySelectorAll("details")].map((d) => d.open);
    part.replaceChildren(...document.adoptNode(next).childNodes);
    part.querySelectorAll("details").forEach((d, i) => { d.open = folds[i] ?? d.open; });
    if (focused) [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
  }
  times();
}

// refreshAnswer replaces the form only if nothing is written into it. Otherwise it says what has changed.
function refreshAnswer(part, next) {
  const form = part.querySelector("form");
  const was = form?.elements.shown.value;
  const is = next.querySelector("form")?.elements.shown.value;
  if (!("open" in part.dataset)) return;
  if ("open" in next.dataset) {
    if (was === is && !part.querySelector(".problem-at")) {
      return; // the same form
    }
    if (isTouched(form) || part.contains(document.activeElement)) {
      if (was !== is) say("Somebody has proposed another answer meanwhile. What you have written is still here.");
      return;
    }
  } else {
    const why = next.querySelector("h2")?.textContent ?? "";
    say(why + ". It can no longer be answered.");
    if (isTouched(form)) {
      part.querySelectorAll("button").forEach((button) => { button.disabled = true; });
      delete part.dataset.open;
      sent = true; // it can be left
      return;
    }
    $(".rest")?.remove();
    delete part.dataset.open;
  }
  part.replaceChildren(...document.adoptNode(next).childNodes);
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
  if (!response?.ok) {
    if (response && (response.type === "opaqueredirect" || response.status === 401)) {
      say("You are signed out. Sign in in another tab, so that nothing you have written here is lost.");
    }
    return;
  }
  replace(new DOMParser().parseFromString(await response.text(), "text/html"));
  tell([...waiting()].filter(([id]) => !before.has(id)));
}

// waiting are the questions of the list that waits for the person, by their names and keys.
function waiting() {
  const rows = list && list.dataset.tab === "" ? list.querySelectorAll(".row") : [];
  return new Map([...rows].map((row) => [row.dataset.name + " " + row.dataset.key, row.querySelector("h2 a")]));
}

if (list || card) {
  const events = new EventSource(base + "events");
  events.addEventListener("refresh", refresh); // at the beginning, and when something may have been missed
  events.addEventListener("question", (event) => {
    if (list || JSON.parse(event.data).name === card.dataset.name) refresh();
  });
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

// Notifications, for those who ask for them

const notify = document.getElementById("notify");
function offer() {
  if (!notify || !("Notification" in window)) return;
  notify.hidden = Notification.permission !== "default";
}
notify?.addEventListener("click", async () => {
  const permission = await Notification.requestPermission();
  say(permission === "granted" ? "You will be told of new questions while this page is open."
    : "The browser does not allow it.");
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

// times brings the distances up to date, and shows the times of this place.
function times() {
  for (const time of document.querySelectorAll("time")) {
    const at = Date.parse(time.dateTime);
    const seconds = Math.floor((at - Date.now()) / 1000);
    time.textContent = seconds > 0 ? "in " + span(seconds) : span(-seconds) + " ago";
    time.title = new Date(at).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "long" });
  }
}

offer();
times();
setInterval(times, 15_000);
document.getElementById("problem")?.focus();
