# stator template: the text exactly, from a file or a model; and what it refuses.
. tests/lib.sh

input='{"messages": [{"role": "user", "content": "Hi \u00e9"}], "add_generation_prompt": true}'

test_a_file() {
    printf '%s' "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ bos_token }}" >"$tmp/t.jinja"
    echo "$input" >"$tmp/in.json"
    expect 0 "$stator" template "$tmp/t.jinja" -f "$tmp/in.json"
    [ "$(cat "$tmp/out")" = '<|user|>Hi é' ] || fail "it printed $(cat "$tmp/out")"
    "$stator" template "$tmp/t.jinja" <"$tmp/in.json" | cmp - "$tmp/out" || fail "standard input gives something else"
}

test_a_model() {
    need_shared vocab
    local f found=
    for f in "$shared"/vocab/*.gguf; do
        "$stator" inspect "$f" 2>/dev/null | grep -q tokenizer.chat_template && found=$f && break
    done
    [ -n "$found" ] || { expect 2 sh -c "echo '$input' | $stator template $f"; said 'has no chat template'; return; }
    expect 0 sh -c "echo '$input' | $stator template $found"
    printed 'Hi é'
}

test_no_tokens() { # A bos id without a token to it.
    need_shared faults
    expect 0 "$stator" template "$shared/faults/empty_tokens_5.gguf" -f "$shared/faults/in2.json"
}

# Work and recursion that a template could hide from the limits.
test_hidden_work() {
    local endless="it takes more than (20003200 steps|10 s)" nested="it is nested more than 400 deep"
    printf '%s' '{% set ns = namespace(t=("a",)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ "x".startswith(ns.t) }}' >"$tmp/double"
    expect 2 sh -c "echo '{}' | timeout 60 $stator template $tmp/double"
    said "$endless"
    printf '%s' '{% set ns = namespace(t=("a",)) %}{% for i in range(5000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ "x".endswith(ns.t) }}' >"$tmp/deep"
    expect 2 sh -c "echo '{}' | timeout 60 $stator template $tmp/deep"
    said "$nested"
    printf '%s' '{% set s = "a" * 1000000 %}{% set c = "b" * 1000000 ~ "a" %}{{ s.strip(c) }}' >"$tmp/strip"
    expect 2 sh -c "echo '{}' | timeout 60 $stator template $tmp/strip"
    said "$endless"
    printf '%s' '{% set s = "a" * 4000000 %}{% for i in range(100000) %}{% if s|length == 0 %}x{% endif %}{% endfor %}' >"$tmp/length"
    expect 2 sh -c "echo '{}' | timeout 60 $stator template $tmp/length"
    said "$endless"
    printf '%s' '{{ "abc".removeprefix(("a", "b")) }}' >"$tmp/prefix"
    expect 2 sh -c "echo '{}' | $stator template $tmp/prefix"
    said 'removeprefix: a string is expected, found a tuple'
}

test_what_it_refuses() {
    echo '{{ messages[0].nothing.x }}' >"$tmp/t"
    expect 2 sh -c "echo '$input' | $stator template $tmp/t"
    said "line 1: 'nothing' is undefined"
    expect 2 sh -c "echo '[1]' | $stator template $tmp/t"
    said 'a JSON object'
    expect 2 sh -c "echo '{\"a\": }' | $stator template $tmp/t"
    said 'line 1, column'
    expect 2 "$stator" template "$tmp/absent" -f /dev/null
    expect 2 sh -c "echo '{}' | $stator template $tmp/absent"
    said 'absent'
    expect 2 sh -c "echo '{}' | $stator template configs/demo.gguf"
    said 'has no chat template'
    expect 2 sh -c "echo '{}' | timeout 60 $stator template /dev/zero"
    said 'is longer than 1.00 MiB'
    expect 2 "$stator" template
    : >"$tmp/empty"
    expect 0 sh -c "echo '{}' | $stator template $tmp/empty"
    [ ! -s "$tmp/out" ] || fail 'an empty template printed something'
    echo x >"$tmp/x"
    expect 1 sh -c "echo '{}' | $stator template $tmp/x >/dev/full"
}

run_tests
