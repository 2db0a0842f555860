// ai with its providers for Responses, chat completions and Messages: two steps with a tool, whole and streamed.
import { generateText, streamText, stepCountIs, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";
import { same, run } from "./check.mjs";

const baseURL = `http://127.0.0.1:${process.argv[2]}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "none" });
const models = {
  responses: openai("any"), // refers to items in its second step
  stateless: openai("any"), // with store: false it sends them
  chat: openai.chat("any"),
  compatible: createOpenAICompatible({ name: "stator", baseURL })("any"),
  anthropic: createAnthropic({ baseURL, apiKey: "none" })("any"),
};

await run(async () => {
  for (const [name, model] of Object.entries(models)) {
    const cities = [];
    const weather = tool({
      description: "d",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        cities.push(city);
        return "sunny";
      },
    });
    const ask = { model, prompt: "Hi", tools: { weather }, stopWhen: stepCountIs(2), maxRetries: 0, providerOptions: { openai: { store: name !== "stateless" } } };
    const whole = await generateText(ask);
    same([whole.text, whole.steps.length, cities], ["I will look.", 2, ["Rome", "Rome"]], name);
    // The provider for Responses knows summaries alone, the one for OpenAI's chats no reasoning.
    if (name === "compatible" || name === "anthropic") same(whole.steps[0].reasoningText, "Let me see.", `${name}: reasoning`);
    const streamed = streamText({ ...ask, onError: ({ error }) => { throw error; } });
    let text = "";
    for await (const piece of streamed.textStream) text += piece;
    same([text, cities.length], ["I will look.I will look.", 4], `${name}, streamed`);
  }
});
