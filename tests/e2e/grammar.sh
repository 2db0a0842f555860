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
