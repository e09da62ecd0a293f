// Which server made this page, and its words for while it cannot be reached: they have to be here before that.
export const identity = JSON.parse(document.getElementById("pg-connection-words").content); // { server, words: { en, zh } }

// As viz/words.py:pick_language: "pt-br" where there are such words, else "pt".
const languages = [new URLSearchParams(location.search).get("lang") ?? "", ...navigator.languages]
  .map((tag) => tag.toLowerCase().replaceAll("_", "-"))
  .flatMap((tag) => tag.split("-").map((_, i, parts) => parts.slice(0, parts.length - i).join("-")));
const language = languages.find((tag) => Object.hasOwn(identity.words, tag)) ?? "en";
export const words = identity.words[language];
