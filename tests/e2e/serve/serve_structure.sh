#!/bin/bash
# Answers that a request constrains: JSON Schemas, regular expressions, choices (tests/clients/structure_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/structure_client.py

test_structures() {
    need_python
    serve memory.context=512 memory.sequences=4
    client schemas
    client expressions
    client grammars
    client refusals "$(sanitized && echo any || echo none)"
    ends
}

test_places() {
    need_python
    serve memory.context=1024 memory.sequences=2 server.grammars=2
    client busy 2
    ends
}

test_no_places() {
    need_python
    serve memory.context=512 memory.sequences=2 server.grammars=0
    client none
    ends
}

test_white_space() {
    need_python
    serve memory.context=512 memory.sequences=2 server.json_whitespace=free
    client spaces
    ends
}

# The prompt has opened reasoning.
test_reasoning() {
    need_python
    printf '%s\n' '{% for m in messages %}<|im_start|>{{ m.role }}' \
        '{% if m.reasoning_content %}<think>' '{{ m.reasoning_content }}' '</think>' '' '{% endif %}{{ m.content }}<|im_end|>' \
        '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant' '<think>' '{% endif %}' >"$tmp/opens"
    more=("chat.template=$tmp/opens")
    script 'Hm' '.' '</think>' 'Well'
    client reasoning
    ends
}

# The model opens it.
test_model_opens_reasoning() {
    need_python
    script '<think>' 'Hm' '.' '</think>' 'Well'
    client reasoning
    client budget
    ends
}

run_tests
