// The server's time on a monotonic timer: a changed or wrong clock of the reader's machine moves nothing.

import { page } from "./words.js";

const arrival = performance.getEntriesByType("navigation")[0]?.responseStart ?? 0;
let base = page.now - arrival; // the server's time when performance.now() was 0

/** The server's time now, in milliseconds. */
export const now = () => base + performance.now();

/** A message carried the server's time. Travelling only makes it look earlier, so the latest estimate is the best one; a
 *  large step back means that the server's clock was set. */
export function heard(serverTime) {
  const at = millis(serverTime);
  if (!Number.isFinite(at)) return;
  const estimate = at - performance.now();
  if (estimate > base || base - estimate > 2000) base = estimate;
}

/** Milliseconds of a number or of an RFC 3339 text; NaN for anything else. */
export function millis(time) {
  return typeof time === "number" ? time : Date.parse(time);
}

const clock = new Intl.DateTimeFormat("en-GB", { timeZone: page.zone, hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(page.lang, { timeZone: page.zone, month: "short", day: "numeric" });

/** A time of day in the shop's zone, with the date when it is another day. */
export function timeOfDay(at) {
  const text = clock.format(at);
  return day.format(at) === day.format(now()) ? text : `${day.format(at)} ${text}`;
}
