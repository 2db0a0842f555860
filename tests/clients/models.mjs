// openai: a server with two models, "chat" and "embed"; each request gets the one that it names.
import OpenAI from "openai";
import { check, same, run } from "./check.mjs";

const client = new OpenAI({ baseURL: `http://127.0.0.1:${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });

await run(async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  same(names, ["chat", "embed"], "the list");
  same((await client.models.retrieve("embed")).id, "embed", "one of them");

  const text = await client.completions.create({ model: "chat", prompt: "Once upon a time", max_tokens: 8, temperature: 0 });
  same([text.model, text.usage.completion_tokens], ["chat", 8], "the text");
  const [again, vector] = await Promise.all([
    client.completions.create({ model: "chat", prompt: "Once upon a time", max_tokens: 8, temperature: 0 }),
    client.embeddings.create({ model: "embed", input: "Once upon a time" }),
  ]);
  same(again.choices[0].text, text.choices[0].text, "the text beside an embedding");
  const length = vector.data[0].embedding.reduce((sum, x) => sum + x * x, 0);
  check(vector.model === "embed" && Math.abs(length - 1) < 1e-5, `the embedding: ${vector.model}, length ${length}`);

  const unknown = await client.embeddings.create({ model: "text-embedding-3-small", input: "x" }).catch((e) => e);
  check(unknown instanceof OpenAI.NotFoundError && /"chat" and "embed"/.test(unknown.message), `the error is ${unknown}`);
  const wrong = await client.completions.create({ model: "embed", prompt: "x" }).catch((e) => e);
  check(wrong instanceof OpenAI.BadRequestError, `the error is ${wrong}`);
});
