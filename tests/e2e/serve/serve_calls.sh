#!/bin/bash
# Calls of tools that a request constrains, in the ways that models write them (tests/clients/structure_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/structure_client.py

test_calls() {
    need_python
    script '<think>' 'Hm' '.' '</think>' 'Well' '<tool_call>' '</tool_call>'
    client calls
    client strict_calls '<tool_call>'
    ends
}

# Tags that are control tokens, which no text can spell.
test_calls_between_control_tokens() {
    need_python
    printf '%s' '{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}|{{ m.content }}' \
        '{% for c in m.tool_calls or [] %}<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}' \
        '<|tool_call_argument_begin|>{{ c.function.arguments|tojson }}<|tool_call_end|><|tool_calls_section_end|>{% endfor %}<|im_end|>' \
        '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant|{% endif %}' >"$tmp/kimi"
    more=("chat.template=$tmp/kimi")
    script 'Well' '<|tool_calls_section_begin|>' '<|tool_call_begin|>' '<|tool_call_argument_begin|>' '<|tool_call_end|>' '<|tool_calls_section_end|>'
    client calls
    client strict_calls '<|tool_calls_section_begin|>' no
    ends
}

# A pair of tags for each argument, as GLM has it.
test_calls_in_tags() {
    need_python
    printf '%s' '{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}|{{ m.content }}' \
        '{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments|items %}<arg_key>{{ k }}</arg_key>' \
        '<arg_value>{{ v if v is string else v|tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}<|im_end|>' \
        '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant|{% endif %}' >"$tmp/glm"
    more=("chat.template=$tmp/glm")
    script 'Well' '<tool_call>' '</tool_call>'
    client calls tools
    client strict_calls '<tool_call>'
    client values_in_tags
    ends
}

# And as Qwen3-Coder has it: values stand on lines of their own.
test_calls_on_lines() {
    need_python
    printf '%s' '{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}|{{ m.content }}' \
        '{% for c in m.tool_calls or [] %}<tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments|items %}<parameter={{ k }}>
{{ v if v is string else v|tojson }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}<|im_end|>' \
        '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant|{% endif %}' >"$tmp/qwen"
    more=("chat.template=$tmp/qwen")
    script 'Well' '<tool_call>' '</tool_call>'
    client calls tools
    client strict_calls '<tool_call>'
    client values_in_tags
    ends
}

# In channels, as gpt-oss has it.
test_calls_in_channels() {
    need_python
    printf '%s' '{% if tools %}namespace functions {{ tools|tojson }}{% endif %}{% for m in messages %}{% if m.tool_calls %}' \
        '<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>' \
        '{{ m.tool_calls[0].function.arguments|tojson }}<|call|>{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>' \
        '{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}' >"$tmp/harmony"
    more=("chat.template=$tmp/harmony")
    script '<|channel|>' 'analysis' '<|message|>' 'Hm' '<|end|>' '+<|start|>' '+<|constrain|>' '+<|call|>' '+<|return|>' '+final'
    client channel_calls required
    client channel_calls format
    ends
    script '<|channel|>' 'commentary to=functions.' '+analysis' '+<|message|>' '+<|end|>' '+<|start|>' '+<|constrain|>' '+<|call|>' '+<|return|>'
    client channel_calls auto
    ends
}

test_calls_as_code() {
    need_python
    printf '%s' '{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}|{{ m.content }}' \
        '{% for c in m.tool_calls or [] %}<|tool_call_start|>[{{ c.function.name }}({% for k, v in c.function.arguments|items %}' \
        '{{ k }}={{ v|tojson }}{% if not loop.last %}, {% endif %}{% endfor %})]<|tool_call_end|>{% endfor %}<|im_end|>' \
        '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant|{% endif %}' >"$tmp/lfm"
    more=("chat.template=$tmp/lfm")
    script 'Well' '<|tool_call_start|>' '<|tool_call_end|>'
    client other_calls
    ends
}

run_tests
