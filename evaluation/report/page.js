"use strict";
// Data reaches the page as text nodes only, never as markup: transcripts hold whatever a model or a user wrote.
const DATA = JSON.parse(document.getElementById("data").textContent);
const LAST = DATA.labels.length - 1;
const list = document.getElementById("list");
const viewer = document.getElementById("viewer");
const filters = document.getElementById("filters");
const named = DATA.episodes.findIndex((item) => "#" + item.row === decodeURIComponent(location.hash));
let current = named; // a link to report.html#<row> opens that row
let shownRun = LAST;

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "click") node.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

const outcome = (run) => (!run || !run.scored ? "none" : run.success ? "right" : "wrong");
const word = { right: "right", wrong: "wrong", none: "no score" };
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function matches(item, wanted) {
  const last = item.runs[LAST], first = item.runs[0];
  if (wanted.kind && String(item.kind) !== wanted.kind) return false;
  if (wanted.language && item.language !== wanted.language) return false;
  if (wanted.failure && !item.runs.some((run) => run && run.failure && run.failure.kind === wanted.failure)) return false;
  if (wanted.outcome === "gained" && !(outcome(first) === "wrong" && outcome(last) === "right")) return false;
  if (wanted.outcome === "lost" && !(outcome(first) === "right" && outcome(last) === "wrong")) return false;
  if ((wanted.outcome === "right" || wanted.outcome === "wrong") && outcome(last) !== wanted.outcome) return false;
  return !wanted.text || searchable(item).includes(wanted.text);
}

function searchable(item) {
  if (!item.lower) {
    const written = item.runs.flatMap((run) => (run ? run.turns.map((turn) => turn.text) : []));
    item.lower = [item.row, item.query, ...written].join("\n").toLowerCase();
  }
  return item.lower;
}

function label(item) {
  const outcomes = item.runs.map(outcome);
  const failure = item.runs[LAST] && item.runs[LAST].failure;
  return [
    outcomes.map((name, index) => [index ? " → " : "", make("span", { class: name }, word[name])]).flat(),
    make("span", {}, "kind " + item.kind),
    failure && make("span", {}, failure.kind),
  ];
}

function fill() {
  const wanted = Object.fromEntries(new FormData(filters));
  wanted.text = wanted.text.trim().toLowerCase();
  const found = DATA.episodes.map((item, index) => [item, index]).filter(([item]) => matches(item, wanted));
  list.replaceChildren(
    ...found.map(([item, index]) =>
      make("li", {},
        make("button", { type: "button", "data-index": index, click: () => open(index, true) },
          make("span", { lang: item.language }, item.query),
          make("span", { class: "meta" }, label(item).map((part) => Array.isArray(part) ? make("span", {}, part) : part))))));
  document.getElementById("count").textContent = found.length + " of " + DATA.episodes.length + " episodes";
  if (!found.some(([, index]) => index === current)) {
    if (found.length) open(found[0][1], false);
    else { current = -1; viewer.replaceChildren(make("p", { class: "empty" }, "Nothing matches these filters.")); }
  } else open(current, false);
}

function mark() {
  for (const button of list.querySelectorAll("button"))
    button.setAttribute("aria-current", String(Number(button.dataset.index) === current));
}

function open(index, scroll) {
  if (index !== current) history.replaceState(null, "", "#" + encodeURIComponent(DATA.episodes[index].row));
  current = index;
  mark();
  show();
  if (scroll && matchMedia("(max-width: 820px)").matches) viewer.scrollIntoView({ block: "start" });
}

function show() {
  const item = DATA.episodes[current];
  const run = item.runs[shownRun] || item.runs.find(Boolean);
  viewer.replaceChildren(
    make("h3", { lang: item.language }, item.query),
    make("p", { class: "meta" }, item.row + (item.sample ? " · sample " + item.sample : "") + " · reference " + run.reference),
    tabs(item),
    ...transcript(run, item.language));
}

function tabs(item) {
  if (DATA.labels.length < 2) return "";
  return make("div", { class: "tabs", role: "tablist" }, DATA.labels.map((name, index) => item.runs[index] && make("button",
    { type: "button", role: "tab", "aria-selected": String(index === shownRun), click: () => { shownRun = index; show(); } },
    name + " · ", make("span", { class: outcome(item.runs[index]) }, word[outcome(item.runs[index])]))));
}

function transcript(run, language) {
  return [
    make("p", { class: "score" },
      make("span", { class: "total" }, run.scored ? run.total.toFixed(3) : "–"),
      make("span", { class: outcome(run) }, run.clean ? "right, no wasted call" : word[outcome(run)]),
      Object.entries(run.parts).map(([name, value]) => make("span", { class: "part" }, name + " " + value.toFixed(3).replace("-", "−")))),
    run.failure && make("p", { class: "why" }, make("strong", {}, run.failure.kind), place(run.failure), run.failure.value && ": " + run.failure.value),
    ...run.turns.map((turn) => turnOf(run, turn, language)),
    run.stop !== "answered" && make("p", { class: "violation" }, "The episode ended without an answer: " + run.stop + "."),
  ].filter(Boolean);
}

function place(at) {
  return " in turn " + (at.turn + 1) + (at.call === null ? "" : ", call " + (at.call + 1));
}

function turnOf(run, turn, language) {
  const last = turn.index === run.turns.length - 1;
  const answered = last && run.answer !== null;
  const plain = turn.steps.length ? turn.prose : answered ? "" : turn.text;
  return make("section", { class: "turn" },
    make("div", { class: "head" }, make("span", {}, "Turn " + (turn.index + 1) + (answered ? " · answer" : "")), earned(turn.increment)),
    plain && make("p", { class: "prose", lang: language }, plain),
    turn.steps.map((step) => callOf(run, turn, step)),
    answered && make("p", { class: "answer" + (run.success ? "" : " wrong"), lang: language }, run.answer || "(empty)"),
    violations(run, turn.index, null),
    turn.steps.length > 0 && make("details", {}, make("summary", {}, "as written"), make("pre", {}, turn.text)));
}

function earned(value) {
  if (value === null) return null;
  return make("span", { class: "earned" + (value > 0 ? " plus" : value < 0 ? " minus" : "") }, "earned " + signed(value));
}

function callOf(run, turn, step) {
  return make("div", { class: "call" },
    make("div", { class: "name" }, step.name || "(no tool name)"),
    step.arguments
      ? make("dl", {}, step.arguments.flatMap((given) => [make("dt", {}, given.name), make("dd", {}, shown(given.value), source(given.source))]))
      : make("dl", {}, make("dt", {}, step.attempt), make("dd", {}, step.raw)),
    violations(run, turn.index, step.call),
    result(step));
}

function source(from) {
  if (!from) return null;
  const where = from.turn === undefined ? "" : "turn " + (from.turn + 1) + (from.path ? " · " + from.path : "");
  const text = { result: "from " + where, query: "from the question", not_yet_seen: "not seen yet: " + where, nowhere: "from nowhere" }[from.origin];
  const bad = from.origin === "nowhere" || from.origin === "not_yet_seen";
  return make("span", { class: "from" + (bad ? " bad" : "") }, text);
}

function result(step) {
  if (!step.ok) return make("div", { class: "result" }, make("span", { class: "message wrong" }, step.result));
  const text = JSON.stringify(step.result, null, 1);
  const long = text.split("\n").length > 14;
  return make("div", { class: "result" },
    make("details", { open: !long }, make("summary", {}, make("span", { class: "status right" }, "success")), make("pre", {}, text)));
}

function violations(run, turn, call) {
  return run.violations.filter((found) => found.turn === turn && found.call === call)
    .map((found) => make("p", { class: "violation" }, found.breach + (found.value ? ": " + found.value : "")));
}

filters.addEventListener("input", fill);
filters.addEventListener("submit", (event) => event.preventDefault());
fill();
const chosen = list.querySelector('[aria-current="true"]');
if (chosen) list.scrollTop = chosen.offsetTop - list.clientHeight / 3;
