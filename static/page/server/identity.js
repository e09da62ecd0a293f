// The identity of the server that sent this page, and the notices for when it is unreachable, loaded in advance.
export const identity = JSON.parse(document.getElementById("pg-connection-words").content); // { server, words: { en, zh } }

// Select the language as viz/words.py:pick_language does: "pt-br" if available, otherwise "pt".
const languages = [new URLSearchParams(location.search).get("lang") ?? "", ...navigator.languages]
  .map((tag) => tag.toLowerCase().replaceAll("_", "-"))
  .flatMap((tag) => tag.split("-").map((_, i, parts) => parts.slice(0, parts.length - i).join("-")));
const language = languages.find((tag) => Object.hasOwn(identity.words, tag)) ?? "en";
export const words = identity.words[language];
