// Acting: a dialog that asks for the reason, sends the command and tells the journal's answer. And the log-in.

import { send } from "./api.js";
import { h } from "./dom.js";

const LEAST_REASON = 3;

function open(title, ...content) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(h("h2", null, title), ...content);
  dialog.showModal();
  return dialog;
}

/** A field with its label. */
function field(label, control) {
  return h("label.field", null, h("span", null, label), control);
}

function controls(submit, dialog) {
  return h(
    "p.buttons",
    null,
    h("button.main", { type: "submit" }, submit),
    h("button", { type: "button", onclick: () => dialog().close() }, "Cancel"),
  );
}

/** Asks for a token; resolves once it was accepted, or never. The token is only sent in the body. */
export function logIn(text) {
  return new Promise((resolve) => {
    const token = h(
      "input",
      { type: "password", autocomplete: "current-password", required: true, autofocus: true, maxlength: 1000 },
    );
    const told = h("p.error", { role: "alert" });
    const form = h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          const session = await send("POST", "/api/session", { token: token.value });
          dialog.close();
          resolve(session);
        } catch (error) {
          told.textContent = error.message;
          token.select();
        }
      },
    }, h(
      "p",
      null,
      text || "With your token you may act; the journal keeps your name.",
    ), field("Token", token), told, controls("Log in", () => dialog));
    const dialog = open("Log in", form);
  });
}

export const logOut = () => send("DELETE", "/api/session");

/**
 * A button that opens the dialog of an action, for whoever may act; empty for others.
 * `action`: {kind, title, text, args, fields: {name: {label, options | placeholder, optional}}, danger}.
 */
export function button(context, label, action) {
  const session = context.session();
  if (!session || !session.can_act) return "";
  const run = async () => {
    if (!context.session().name) {
      await logIn();
      await context.named();
    }
    ask(context, action);
  };
  return h("button.act", { type: "button", "data-danger": action.danger || false, onclick: run }, label);
}

function ask(context, action) {
  const inputs = Object.entries(action.fields || {}).map(([name, of]) => [name, of, control(of)]);
  const why = h(
    "textarea",
    { rows: 3, required: true, minlength: LEAST_REASON, maxlength: 500, placeholder: "The journal keeps it." },
  );
  const told = h("p.error", { role: "alert" });
  const form = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      const main = form.querySelector(".main");
      main.disabled = true;
      told.textContent = "Sent; waiting for the journal.";
      try {
        const given = Object.fromEntries(
          inputs.map(([name, , input]) => [name, input.value.trim()]).filter(([, value]) => value),
        );
        const answer = await send(
          "POST",
          "/api/act",
          { kind: action.kind, args: { ...action.args, ...given }, why: why.value },
        );
        if (!answer.accepted) throw new Error(`The journal rejected it: ${answer.reason}`);
        dialog.close();
        context.reload();
      } catch (error) {
        told.textContent = error.message;
        main.disabled = false;
      }
    },
  }, action.text ? h("p", null, action.text) : "", inputs.map(([, of, input]) => field(of.label, input)),
  field(`Reason, under the name ${context.session().name}`, why), told, controls(action.title, () => dialog));
  const dialog = open(action.title, form);
  (inputs.length ? inputs[0][2] : why).focus();
}

function control({ options, placeholder, optional, value }) {
  if (options) return h(
    "select",
    null,
    options.map((one) => h("option", { value: one, selected: one === value }, one || "(placement chooses)")),
  );
  return h("input", { type: "text", placeholder, required: !optional, value, maxlength: 400, spellcheck: "false" });
}
