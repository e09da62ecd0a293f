// The logout button, shown if the server requires a login. It is a form, like the login page.
import { el, fill } from "../dom.js";
import { headerItem } from "../header_items.js";

const name = window.gradio_config?.username;
if (name)
  headerItem(50, (words) => {
    const form = el("form", "pg-log-out", "", { method: "post", action: "logout" });
    const title = fill(words.log_out_help, { name });
    form.append(el("button", "pg-button pg-quiet", words.log_out, { type: "submit", title }));
    return form;
  });
