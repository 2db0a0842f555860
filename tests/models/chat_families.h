/* Small chat templates, one for each way of writing calls: what models' own templates render, without the
 * rest. */
#ifndef STATOR_TESTS_CHAT_FAMILIES_H
#define STATOR_TESTS_CHAT_FAMILIES_H

#define CHAT_FAMILIES_LOOP(call)                                                                             \
    "{% if tools %}<|im_start|>system\n{{ tools|tojson }}<|im_end|>\n{% endif %}{% for m in messages %}"     \
    "<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content "                 \
    "}}\n</think>\n\n{% endif %}"                                                                            \
    "{{ m.content }}{% for c in m.tool_calls or [] %}{% set f = c.function %}" call                          \
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

#define CHAT_FAMILIES_HERMES                                                                                 \
    CHAT_FAMILIES_LOOP("\n<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments|tojson "   \
                       "}}}\n</tool_call>")

static const char family_hermes[] = CHAT_FAMILIES_HERMES;
static const char family_qwen[] = CHAT_FAMILIES_LOOP(
    "\n<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments|items %}<parameter={{ k }}>\n"
    "{{ v if v is string else v|tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>");
static const char family_seed[] = CHAT_FAMILIES_LOOP(
    "\n<seed:tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments|items %}<parameter={{ k }}>"
    "{{ v if v is string else v|tojson }}</parameter>\n{% endfor %}</function>\n</seed:tool_call>");
static const char family_glm[] = CHAT_FAMILIES_LOOP(
    "\n<tool_call>{{ f.name }}\n{% for k, v in f.arguments|items %}<arg_key>{{ k }}</arg_key>\n<arg_value>"
    "{{ v if v is string else v|tojson }}</arg_value>\n{% endfor %}</tool_call>");
static const char family_minimax[] = CHAT_FAMILIES_LOOP(
    "\n<minimax:tool_call>\n<invoke name=\"{{ f.name }}\">\n{% for k, v in f.arguments|items %}"
    "<parameter name=\"{{ k }}\">{{ v if v is string else v|tojson }}</parameter>\n{% endfor %}</invoke>\n"
    "</minimax:tool_call>");
static const char family_dsml[] = CHAT_FAMILIES_LOOP(
    "\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"{{ f.name }}\">\n{% for k, v in f.arguments|items %}"
    "<｜DSML｜parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">"
    "{{ v if v is string else v|tojson }}</｜DSML｜parameter>\n{% endfor "
    "%}</｜DSML｜invoke>\n</｜DSML｜function_calls>");
static const char family_deepseek[] =
    CHAT_FAMILIES_LOOP("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ "
                       "f.arguments|tojson }}<｜tool▁call▁end｜>"
                       "<｜tool▁calls▁end｜>");
static const char family_deepseek_r1[] =
    CHAT_FAMILIES_LOOP("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name "
                       "}}\n```json\n{{ f.arguments|tojson }}\n```"
                       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
static const char family_kimi[] = CHAT_FAMILIES_LOOP(
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}"
    "<|tool_call_argument_begin|>{{ f.arguments|tojson }}<|tool_call_end|><|tool_calls_section_end|>");
static const char family_mistral[] =
    CHAT_FAMILIES_LOOP("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments|tojson }}");
static const char family_nemo[] =
    CHAT_FAMILIES_LOOP("[TOOL_CALLS][{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments|tojson }}, "
                       "\"id\": \"{{ c.id }}\"}]");
static const char family_nemotron[] = CHAT_FAMILIES_LOOP(
    "<TOOLCALL>[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments|tojson }}}]</TOOLCALL>");
static const char family_llama[] =
    CHAT_FAMILIES_LOOP("{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments|tojson }}}");
static const char family_gemma[] = CHAT_FAMILIES_LOOP(
    "<|tool_call>call:{{ f.name }}{ {%- for k, v in f.arguments|items %}{{ k }}:{% if v is string %}<|\"|>{{ "
    "v }}<|\"|>"
    "{% else %}{{ v|tojson }}{% endif %}{% if not loop.last %},{% endif %}{% endfor -%} }<tool_call|>");
static const char family_lfm[] = CHAT_FAMILIES_LOOP(
    "<|tool_call_start|>[{{ f.name }}({% for k, v in f.arguments|items %}{{ k }}={{ v|tojson }}"
    "{% if not loop.last %}, {% endif %}{% endfor %})]<|tool_call_end|>");
static const char family_harmony[] =
    "{% if tools %}namespace functions {{ tools|tojson }}{% endif %}{% for m in messages %}{% if "
    "m.tool_calls %}"
    "<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
    "{{ m.tool_calls[0].function.arguments|tojson }}<|call|>{% elif m.role == 'assistant' %}"
    "{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    "<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% else %}<|start|>{{ m.role "
    "}}<|message|>"
    "{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif "
    "%}";
static const char family_unknown[] =
    CHAT_FAMILIES_LOOP("(((call {{ f.name }} with {{ f.arguments|tojson }} )))");

#endif
