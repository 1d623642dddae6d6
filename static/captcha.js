// The captcha of a sale: a worker tries numbers until one fits; where that cannot be done the person is asked a sum.

import { say } from "./card.js";
import { t } from "./words.js";

const GIVE_UP = 30000;

/** A nonce for the challenge, when it counts; nothing where this page cannot find one (no crypto on a plain-HTTP address, no worker, too slow). */
export function solve({ challenge, difficulty, wait = 0 }) {
  const counts = performance.now() + wait;
  return new Promise((resolve) => {
    if (!globalThis.crypto?.subtle || !globalThis.Worker) return resolve(undefined);
    let worker;
    try {
      worker = new Worker(new URL("./captcha_worker.js", import.meta.url));
    } catch {
      return resolve(undefined);
    }
    const end = (nonce) => {
      clearTimeout(timer);
      worker.terminate();
      if (nonce === undefined) return resolve(nonce);
      setTimeout(resolve, Math.max(0, counts - performance.now()), nonce);
    };
    const timer = setTimeout(end, GIVE_UP);
    worker.onmessage = ({ data }) => end(data);
    worker.onerror = () => end();
    worker.postMessage({ challenge, difficulty });
  });
}

/** What the person typed under the card's button, with the challenge it belongs to; nothing when no sum is asked. */
export function typed(card) {
  const form = card.querySelector(".stub form");
  const id = form?.elements.captchaId?.value;
  const answer = form?.elements.captchaAnswer?.value.trim();
  return id && answer ? { id, answer } : undefined;
}

/** Takes the sum away again. */
export function clear(card) {
  card.querySelectorAll("[name=captchaId], .field").forEach((part) => part.closest(".stub") && part.remove());
}

/** Asks the sum over the button. */
export function question(card, { id, question }) {
  clear(card);
  const form = card.querySelector(".stub form");
  if (!form) return;
  const hidden = document.createElement("input");
  hidden.type = "hidden";
  hidden.name = "captchaId";
  hidden.value = id;
  const input = document.createElement("input");
  input.id = `captcha${card.dataset.voucher}`;
  input.name = "captchaAnswer";
  input.inputMode = "numeric";
  input.autocomplete = "off";
  input.maxLength = 20;
  input.required = true;
  const label = document.createElement("label");
  label.htmlFor = input.id;
  label.textContent = `${t("captcha-label")} ${question}`;
  const field = document.createElement("p");
  field.className = "field";
  field.append(label, " ", input);
  form.prepend(hidden, field);
  say(card, t("next-captcha-required"));
  input.focus();
}
