/* Colours of code: comments, strings, numbers and keywords, by one rough rule per family of languages. The text itself
 * stays as it is: a wrong guess costs a colour. */
const MOST = 50000; /* characters that are looked at; a longer text stays plain */

const STRINGS = [/"(?:\\.|[^"\\\n])*"?/, /'(?:\\.|[^'\\\n])*'?/];
const SLASHES = [/\/\/[^\n]*/, /\/\*[^]*?(?:\*\/|$)/];
const HASH = [/#[^\n]*/];

const WORDS = {
  c: "auto break case catch char class const constexpr continue default delete do double else enum explicit export extern false finally float fn for foreach func function if impl import in inline int interface let long match module mut namespace new nil null nullptr operator override package private protected pub public return short signed sizeof static struct super switch template this throw trait true try type typedef typename union unsigned use using var virtual void volatile where while yield async await",
  python: "and as assert async await break class continue def del elif else end ensure except False finally for from function global if import in is lambda local module next nil None nonlocal not or pass raise redo require rescue retry return self super then True try undef unless until when while with yield",
  shell: "case do done elif else esac export fi for function if in local return select set then until while",
  sql: "select from where insert into values update set delete create table index view drop alter add primary key foreign references join left right inner outer on group by order having limit offset union all distinct as and or not null is in like between case when then else end begin commit rollback",
  data: "true false null yes no on off",
};

/* Each: what is a comment, what else is a string, and which words are keywords. */
const FAMILIES = [
  ["c cpp c++ h hpp cc cs java kotlin scala swift go rust rs js javascript ts typescript jsx tsx php dart zig glsl opencl cl cuda proto css scss", SLASHES, [/`(?:\\.|[^`\\])*`?/], WORDS.c],
  ["py python rb ruby elixir julia jl nim r", HASH, [/"""[^]*?(?:"""|$)/, /'''[^]*?(?:'''|$)/], WORDS.python],
  ["sh bash zsh shell console fish make makefile dockerfile perl", HASH, [], WORDS.shell],
  ["sql sqlite postgres", [/--[^\n]*/, /\/\*[^]*?(?:\*\/|$)/], [], WORDS.sql],
  ["lua haskell hs", [/--[^\n]*/], [], WORDS.python],
  ["json jsonc json5", SLASHES, [], WORDS.data],
  ["yaml yml toml ini cfg conf", HASH, [], WORDS.data],
];

const rules = new Map();
for (const [names, comments, strings, words] of FAMILIES) {
  const source = (list) => list.map((r) => r.source).join("|");
  const rule = { words: new Set(words.split(" ")), any: words === WORDS.sql,
    parts: new RegExp(`(${source(comments)})|(${source([...strings, ...STRINGS])})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)|[^]`, "y") };
  for (const name of names.split(" "))
    rules.set(name, rule);
}

/* The text as parts [class, text] in order; the class is null where no colour is due. */
export function coloured(text, language) {
  const rule = rules.get(language.toLowerCase());
  if (rule === undefined || text.length > MOST)
    return [[null, text]];
  const out = [];
  let plain = "";
  const put = (name, part) => {
    if (plain !== "")
      out.push([null, plain]);
    plain = "";
    out.push([name, part]);
  };
  rule.parts.lastIndex = 0;
  for (let m = rule.parts.exec(text); m !== null; m = rule.parts.exec(text)) {
    if (m[1] !== undefined)
      put("code-comment", m[0]);
    else if (m[2] !== undefined)
      put("code-string", m[0]);
    else if (m[3] !== undefined)
      put("code-number", m[0]);
    else if (m[4] !== undefined && rule.words.has(rule.any ? m[4].toLowerCase() : m[4]))
      put("code-word", m[0]);
    else
      plain += m[0];
  }
  return plain !== "" ? [...out, [null, plain]] : out;
}
