// openai and ollama: embeddings of one text and of several, with fewer dimensions, as numbers and as base64.
import OpenAI from "openai";
import { Ollama } from "ollama";
import { check, same, run } from "./check.mjs";

const client = new OpenAI({ baseURL: `http://127.0.0.1:${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const ollama = new Ollama({ host: `http://127.0.0.1:${process.argv[2]}` });
const input = ["Once upon a time", "there was a frog"];
const exact = (v) => Array.from(new Float32Array(v));

await run(async () => {
  // The package asks for base64 by itself and decodes it.
  const several = await client.embeddings.create({ model: "any", input });
  same(several.data.map((item) => item.index), [0, 1], "indices");
  const vectors = several.data.map((item) => exact(item.embedding));
  for (const v of vectors) check(Math.abs(v.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5, "not of length 1");
  const numbers = await client.embeddings.create({ model: "any", input, encoding_format: "float" });
  same(numbers.data.map((item) => exact(item.embedding)), vectors, "numbers");
  check(numbers.usage.prompt_tokens === numbers.usage.total_tokens && numbers.usage.total_tokens > 0, "usage");
  const one = await client.embeddings.create({ model: "any", input: input[1] });
  same(exact(one.data[0].embedding), vectors[1], "one text");
  const short = await client.embeddings.create({ model: "any", input: input[0], dimensions: 8 });
  same(short.data[0].embedding.length, 8, "dimensions");
  const error = await client.embeddings.create({ model: "any", input: input[0], dimensions: 1 << 20 }).catch((e) => e);
  check(error instanceof OpenAI.BadRequestError, `the error is ${error}`);

  const embedded = await ollama.embed({ model: "any", input });
  same(embedded.embeddings.map(exact), vectors, "ollama");
  same(exact((await ollama.embeddings({ model: "any", prompt: input[0] })).embedding), vectors[0], "ollama, one text");
});
