// The form for a new sale: its two times are read in the zone of the browser that typed them, and the page says so.

import { t } from "./words.js";

/** Fills the hidden zone field, unless the server has just refused the zone. */
export function start() {
  const field = document.querySelector('input[type="hidden"][name="timeZone"]');
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!field || !zone || document.getElementById("timeZone-error")) return;
  field.value = zone;
  const parts = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "shortOffset" }).formatToParts();
  const offset = parts.find((part) => part.type === "timeZoneName")?.value.replace("GMT", "UTC") ?? "";
  document.getElementById("zone").textContent = t("form-zone-browser", { zone, offset });
}
