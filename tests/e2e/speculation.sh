# Speculation through the binary: the bytes of run, of the report's figures, of the server's answers.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../lib_serve.sh"
cfg=configs/demo.cfg

test_same_text() {
    local options tokens
    while read -r options; do
        expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 300 $options
        mv "$tmp/out" "$tmp/plain.txt"
        for tokens in 1 4 16; do
            expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 300 $options --set speculation.mode=ngram \
                --set speculation.tokens=$tokens --report "$tmp/r.json"
            cmp "$tmp/out" "$tmp/plain.txt" || fail "$tokens guesses, $options: another text"
        done
    done <<'END'
--temp 0
--temp 1 --seed 5
--temp 0.7 --seed 9 --repeat-penalty 1.2
END
    said '^speculation [0-9]+ of [1-9][0-9]* guesses kept$'
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"speculation":\{"mode":"ngram","tokens":16,"turns":[1-9][0-9]*,"guessed":[1-9][0-9]*,"kept":[0-9]+,"tokens_per_turn":1[0-9.e-]*,"rate_by_place":\[([0-9.]+,){15}[0-9.]+\]\}' || fail "the report"
}

# Rows of logits are planned for the guesses; the plan's hash says so.
test_plan() {
    expect 0 "$stator" plan $cfg --json
    mv "$tmp/out" "$tmp/old.json"
    grep -q speculation "$tmp/old.json" && fail "off, and in the plan"
    expect 0 "$stator" plan $cfg --json --set speculation.mode=ngram
    grep -q '"logits_rows"' "$tmp/out" || grep -q speculation "$tmp/out" || fail "not in the plan"
    expect 0 "$stator" plan $cfg --set speculation.mode=ngram --diff "$tmp/old.json"
    printed 'speculation'
    expect 0 "$stator" config $cfg --set speculation.mode=ngram --set speculation.tokens=7
    printed 'logits_rows = 8;'
}

test_server() {
    local body='{"prompt": "one two three one two three one", "max_tokens": 60, "temperature": 0, "stop": ["the end"]}' mode text
    for mode in off ngram; do
        serve --set speculation.mode=$mode
        ready
        raw '%s\r\n' 'POST /v1/completions HTTP/1.1' "Host: localhost:$port" 'Connection: close' 'Content-Type: application/json' \
            "Content-Length: ${#body}" '' "$body"
        answered 200 '"text"'
        tr -d ' \n' <"$tmp/answer" >"$tmp/$mode.answer"
        sed -E 's/.*("text":"[^"]*").*/\1/' "$tmp/$mode.answer" >"$tmp/$mode.text"
        get /metrics
        cp "$tmp/answer" "$tmp/$mode.metrics"
        kill -TERM $pid
        ends 0
    done
    cmp "$tmp/off.text" "$tmp/ngram.text" || fail "another answer"
    grep -qE '"draft_n":[1-9][0-9]*,"draft_n_accepted":[0-9]+' "$tmp/ngram.answer" || fail "no draft_n"
    grep -q draft_n "$tmp/off.answer" && fail "draft_n without guesses"
    grep -qE '^stator_speculation_guessed_total\{place="1"\} [1-9]' "$tmp/ngram.metrics" || fail "no guesses in /metrics"
    grep -qE '^stator_speculation_turns_total [1-9]' "$tmp/ngram.metrics" || fail "no turns in /metrics"
}

run_tests
