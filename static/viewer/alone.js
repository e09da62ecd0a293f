// The viewer in a file of its own, with its document and Plotly in the same file: no server and no network.
import { mount } from "./viewer.js";

// The theme follows the reader's system.
const dark = matchMedia("(prefers-color-scheme: dark)"),
  dress = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", dress);
dress();

document.documentElement.classList.add("pg-alone");
const root = document.getElementById("viewer");
mount(root, JSON.parse(document.getElementById("attention").textContent)).catch((error) => {
  root.textContent = error.message;
});
