// Libraries that only some exports need, loaded on first use.
const libraries = new Map(); // name -> a promise of the module's exports
let failed = 0; // number of failed loads; a browser does not retry a module at an address where it failed

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
