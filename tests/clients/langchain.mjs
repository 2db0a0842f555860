// @langchain/openai: a call, its result, and a stream; over chat completions and over Responses.
import { ChatOpenAI } from "@langchain/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { check, same, run } from "./check.mjs";

const weather = tool(() => "sunny", { name: "weather", description: "d", schema: z.object({ city: z.string() }) });

await run(async () => {
  for (const useResponsesApi of [false, true]) {
    const model = new ChatOpenAI({
      model: "any", apiKey: "none", useResponsesApi, maxRetries: 0, configuration: { baseURL: `http://127.0.0.1:${process.argv[2]}/v1` },
    }).bindTools([weather]);
    const first = await model.invoke([new HumanMessage("Hi")]);
    same(first.tool_calls.map(({ name, args }) => [name, args]), [["weather", { city: "Rome" }]], "the call");
    const second = await model.invoke([new HumanMessage("Hi"), first, new ToolMessage({ content: "sunny", tool_call_id: first.tool_calls[0].id })]);
    check(second.text === "I will look.", `the second turn is ${JSON.stringify(second.content)}`);
    let whole;
    for await (const piece of await model.stream([new HumanMessage("Hi")])) whole = whole ? whole.concat(piece) : piece;
    same(whole.tool_calls.map(({ name, args }) => [name, args]), [["weather", { city: "Rome" }]], "the call, streamed");
  }
});
