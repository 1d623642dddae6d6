// The form for a new sale: its two times are read in the zone of the browser that typed them, and the page says so; what
// buyers will see follows what is typed. The server words and draws it, as it does for the button "preview".

import { t } from "./words.js";

const PAUSE = 400; // milliseconds without a key before the server is asked
let timer;
let asked = 0;

const two = (n) => String(n).padStart(2, "0");

/** An instant as a field for local times takes it. */
function local(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** Names the browser's zone, unless the server keeps the one that was typed in, or has just refused one. */
function zone(form) {
  const field = form.elements.timeZone;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!name || "kept" in field.dataset || document.getElementById("timeZone-error")) return;
  field.value = name;
  const parts = new Intl.DateTimeFormat("en", { timeZone: name, timeZoneName: "shortOffset" }).formatToParts();
  const offset = parts.find((part) => part.type === "timeZoneName")?.value.replace("GMT", "UTC") ?? "";
  document.getElementById("zone").textContent = t("form-zone-browser", { zone: name, offset });
  for (const time of form.querySelectorAll("input[data-at]")) time.value = local(Number(time.dataset.at));
}

async function look(form) {
  const mine = ++asked;
  const typed = new URLSearchParams(new FormData(form));
  typed.set("do", "preview");
  try {
    const response = await fetch(form.action, { method: "POST", body: typed, headers: { accept: "text/html" } });
    if (!response.ok || mine !== asked) return; // an older answer, or none: what is shown stays
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of ["[data-look]", "[data-minds]"]) {
      const [before, after] = [document.querySelector(part), next.querySelector(part)];
      // A warning is read out once, not with every key.
      if (before && after && before.innerHTML !== after.innerHTML) before.replaceChildren(...after.childNodes);
    }
  } catch {
    // away: the button says so when it is pressed
  }
}

/** Starts on the form's page. */
export function start() {
  const form = document.querySelector('form[data-form="voucher"]');
  if (!form) return;
  zone(form);
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE, form);
  });
}
