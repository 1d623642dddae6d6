// Countdowns and ages. Digits change in place, once a second; nothing else moves.

import { now } from "./clock.js";
import { t } from "./words.js";

const MARKS = [[600, "10m"], [60, "1m"], [10, "10s"]];
const lastSeen = new WeakMap(); // countdown → seconds that it showed last

const two = (n) => String(n).padStart(2, "0");

function left(seconds) {
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  if (days > 0) return t("days-clock", { days, clock: `${two(hours)}:${rest}` });
  return hours > 0 ? `${two(hours)}:${rest}` : rest;
}

/** Shows what is left, at once. */
export function fill(time) {
  const seconds = Math.max(0, Math.ceil((Date.parse(time.dateTime) - now()) / 1000));
  time.textContent = left(seconds);
  return seconds;
}

function announce(card, key) {
  const place = document.querySelector("[data-announce]");
  const title = card?.querySelector("h3")?.textContent;
  if (place && title) place.textContent = t(key, { title });
}

function tick(time, due) {
  const ms = Date.parse(time.dateTime) - now();
  const seconds = fill(time);
  const before = lastSeen.get(time);
  lastSeen.set(time, seconds);
  const card = time.closest("article.ticket[data-voucher][data-state]");
  const kind = card?.dataset.held ? undefined : { soon: "start", open: "end" }[card?.dataset.state];
  for (const [mark, name] of MARKS) {
    if (kind && before > mark && seconds <= mark) announce(card, `announce-${kind}-${name}`);
  }
  if (seconds === 0 && before !== 0) {
    if (kind) announce(card, kind === "start" ? "announce-started" : "announce-ended");
    due(time);
  }
  return ms > 0 ? ms : Infinity;
}

function ages() {
  for (const place of document.querySelectorAll("[data-age]:not([hidden])")) {
    const seconds = Math.max(0, Math.floor((now() - Number(place.dataset.age)) / 1000));
    place.textContent = seconds < 120 ? t("age-seconds", { n: seconds }) : t("age-minutes", { n: Math.floor(seconds / 60) });
  }
}

/** Starts the one timer of the page. `due(time)` is called once for each countdown that reaches zero. */
export function start(due, everySecond) {
  const run = () => {
    let next = 1000 - (now() % 1000);
    for (const time of document.querySelectorAll("time[data-countdown]")) {
      next = Math.min(next, tick(time, due)); // a sale may begin between two whole seconds
    }
    ages();
    everySecond();
    setTimeout(run, Math.max(next, 20) + 5);
  };
  run();
}
