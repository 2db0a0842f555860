// What the clients' scripts share.
import { isDeepStrictEqual } from "node:util";

export function check(ok, what) {
  if (!ok) throw new Error(what);
}

export function same(got, want, what) {
  check(isDeepStrictEqual(got, want), `${what}: ${JSON.stringify(got)} is not ${JSON.stringify(want)}`);
}

// Ends the process with 1, and a line that says what is wrong.
export async function run(test) {
  try {
    await test();
  } catch (e) {
    console.log(e.stack ?? String(e));
    process.exit(1);
  }
}
