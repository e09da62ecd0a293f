// A library that only some exports need, loaded when the first of them is asked for.
const libraries = new Map(); // name -> a promise of what it exports
let failed = 0; // a browser does not ask again for a module that it could not load, unless its address is another one

export function vendor(name) {
  if (!libraries.has(name)) {
    const address = `../vendor/${name}${failed ? `?${failed}` : ""}`;
    const library = import(address).then(({ default: exported }) => exported);
    library.catch(() => {
      failed += 1;
      libraries.delete(name);
    });
    libraries.set(name, library);
  }
  return libraries.get(name);
}
