# stator grammar: a verdict per line of standard input, exit codes, and refusals by name.
. tests/lib.sh

test_verdicts() {
    echo '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"maxLength": 2, "type": "string"}},
           "required": ["a"], "additionalProperties": false}' >"$tmp/s.json"
    printf '%s\n' '{"a": 1}' '{ "a":1, "b": "\u0041\u00e9" }' >"$tmp/good"
    printf '%s\n' '{"a": 1}' '{"b": "x"}' '{"a": 1, "c": 2}' >"$tmp/bad"
    expect 0 sh -c "$stator grammar $tmp/s.json <$tmp/good"
    printed '1: valid'
    printed '2: valid'
    expect 1 sh -c "$stator grammar $tmp/s.json <$tmp/bad"
    printed '2: invalid'
    printed '3: invalid'
    expect 0 sh -c "$stator grammar --free-space $tmp/s.json <$tmp/good"
    echo '[0-9]{2,3}' >"$tmp/r"
    expect 1 sh -c "printf '12\n1234\n' | $stator grammar --regex $tmp/r"
    printed '1: valid'
    printed '2: invalid'
}

test_gbnf() {
    printf 'root ::= "a"{2} digit* # c\ndigit ::= [0-9]\n' >"$tmp/g.gbnf"
    expect 1 sh -c "printf 'aa12\na1\n' | $stator grammar $tmp/g.gbnf"
    printed '1: valid'
    printed '2: invalid'
    cp "$tmp/g.gbnf" "$tmp/g"
    expect 0 sh -c "printf 'aa\n' | $stator grammar --gbnf $tmp/g"
    expect 2 sh -c "$stator grammar --gbnf --regex $tmp/g </dev/null"
    said 'one of --gbnf and --regex'
    printf 'root ::= "a"\n  b\n' >"$tmp/bad.gbnf"
    expect 2 sh -c "$stator grammar $tmp/bad.gbnf </dev/null"
    said 'bad.gbnf: GBNF, line 2, column 4: ::= is expected'
}

# Answers of the demo, which has learnt no JSON, match all the same.
test_run() {
    echo '{"type": "object", "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}, "b": {"enum": ["x", "yy"]}},
           "required": ["a", "b"], "additionalProperties": false}' >"$tmp/s.json"
    for seed in 1 2 3; do
        expect 0 "$stator" run configs/demo.gguf -p 'One day' --seed $seed --temp 1.5 --json-schema "$tmp/s.json"
        tr -d '\n' <"$tmp/out" >"$tmp/answer"
        expect 0 sh -c "$stator grammar $tmp/s.json <$tmp/answer"
        printed '^1: valid'
    done
    expect 0 "$stator" run configs/demo.gguf -p 'One day' --temp 0 --regex 'yes|no' --json
    printed '"text":"(yes|no)","reason":"end of text"'
    printed '"arena":"grammars"'
    printf 'root ::= "<" item{2} ">"\nitem ::= [a-c]{1,9} ";"\n' >"$tmp/g.gbnf"
    expect 0 "$stator" run configs/demo.gguf -p 'One day' --seed 1 --temp 1.5 --grammar "$tmp/g.gbnf"
    tr -d '\n' <"$tmp/out" >"$tmp/answer"
    expect 0 sh -c "$stator grammar $tmp/g.gbnf <$tmp/answer"
    printed '^1: valid'
    expect 2 "$stator" run configs/demo.gguf -p 'One day' --grammar "$tmp/g.gbnf" --regex a
    said 'one of --json-schema, --grammar and --regex'
    expect 2 "$stator" run configs/demo.gguf -p 'One day' --regex 'yes(' --json
    said '^stator run: --regex: .*\( without \)'
    echo '{"type": "array", "uniqueItems": true}' >"$tmp/s.json"
    expect 2 "$stator" run configs/demo.gguf -p 'One day' --json-schema "$tmp/s.json"
    said 's.json: .*keyword "uniqueItems"'
    expect 2 "$stator" run configs/demo.gguf -p 'One day' --regex a --ignore-eos
    said 'ignore_eos'
}

test_refusals() {
    echo '{"type": "array", "uniqueItems": true}' >"$tmp/s.json"
    expect 2 sh -c "$stator grammar $tmp/s.json </dev/null"
    said 'keyword "uniqueItems"'
    echo 'a(' >"$tmp/r"
    expect 2 sh -c "$stator grammar --regex $tmp/r </dev/null"
    said '( without )'
    python3 -c 'print({"enum": ["%08d" % (i * 7919) for i in range(9000)]})' | tr "'" '"' >"$tmp/big.json"
    expect 3 sh -c "$stator grammar --memory 64KiB $tmp/big.json </dev/null"
    said 'it needs more than'
}

# No instance that an independent validator refuses is accepted.
test_suite() {
    need_shared schemas
    for f in type required enum minimum maxLength pattern additionalProperties; do
        python3 - "$shared/schemas/suite/draft2020-12/$f.json" "$tmp" <<'PY'
import json, sys
for i, group in enumerate(json.load(open(sys.argv[1]))):
    json.dump(group["schema"], open(f"{sys.argv[2]}/{i}.schema", "w"))
    with open(f"{sys.argv[2]}/{i}.invalid", "w") as out:
        for test in group["tests"]:
            if not test["valid"]:
                out.write(json.dumps(test["data"]) + "\n")
PY
        for s in "$tmp"/*.schema; do
            "$stator" grammar "$s" <"${s%.schema}.invalid" >"$tmp/verdicts" 2>/dev/null || true
            ! grep -q ': valid' "$tmp/verdicts" || fail "$f: $(cat "$s"): an invalid instance is accepted"
        done
        rm -f "$tmp"/*.schema "$tmp"/*.invalid
    done
}

run_tests
