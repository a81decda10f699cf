// What scripts say, in the language of the page. The English sentences are in the scripts themselves; those of another
// language came with a script of their own.
globalThis.exportdesk = (() => {
  "use strict";

  const known = globalThis.exportdeskWords ?? {};
  const language = document.documentElement.lang || "en";
  const locale = language === "en" ? "en-GB" : language;
  const timeZone = knownZone(document.documentElement.dataset.zone) ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  const plural = new Intl.PluralRules(language);
  const number = new Intl.NumberFormat(locale);

  // The zone that the person chose on the page of their account, where this browser knows it.
  function knownZone(name) {
    try {
      return name && new Intl.DateTimeFormat("en", { timeZone: name }) ? name : undefined;
    } catch {
      return undefined;
    }
  }

  const told = (value) => (typeof value === "number" ? number.format(value) : String(value));
  const filled = (pattern, values) => pattern.replace(/\{(\w+)\}/g, (all, name) => (name in values ? told(values[name]) : all));

  const say = (pattern, values = {}) => filled(known[pattern] || pattern, values);

  // `{n}` is the number.
  function sayMany(one, many, n, values = {}) {
    const forms = known[one];
    const categories = plural.resolvedOptions().pluralCategories;
    const pattern = forms ? forms[Math.max(0, categories.indexOf(plural.select(n)))] : n === 1 ? one : many;
    return filled(pattern, { n, ...values });
  }

  return { language, locale, timeZone, say, sayMany };
})();
