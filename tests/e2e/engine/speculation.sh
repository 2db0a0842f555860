# Speculation through the binary: the bytes of run, of the report's figures, of the server's answers.
. tests/lib.sh
. tests/lib_serve.sh
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
    said '^speculation [0-9]+ of [1-9][0-9]* draft tokens kept$'
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"speculation":\{"mode":"ngram","tokens":16,"turns":[1-9][0-9]*,"guessed":[1-9][0-9]*,"kept":[0-9]+,"tokens_per_turn":1[0-9.e-]*,"rate_by_place":\[([0-9.]+,){15}[0-9.]+\]\}' || fail "the report"
}

# A model with coarser weights guesses for the one that it was made of; the model itself guesses all right.
test_draft() {
    expect 0 "$stator" quantize configs/demo.gguf "$tmp/small.gguf" Q4_0
    local draft options
    for draft in "$tmp/small.gguf" configs/demo.gguf; do
        while read -r options; do
            expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 300 $options
            mv "$tmp/out" "$tmp/plain.txt"
            expect 0 "$stator" run $cfg -p "Once upon a time, a time" -n 300 $options --set speculation.mode=draft \
                --set speculation.model="$draft" --report "$tmp/r.json"
            cmp "$tmp/out" "$tmp/plain.txt" || fail "$draft, $options: another text"
            tr -d ' \n' <"$tmp/r.json" | grep -qE '"mode":"draft","tokens":4,"turns":[0-9]+,"guessed":[1-9][0-9]*,"kept":[1-9].*"draft_steps":[1-9]' || fail "the report"
        done <<'END'
--temp 0.7 --seed 9 --repeat-penalty 1.2
--temp 0
END
    done
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"guessed":([0-9]+),"kept":\1,' || fail "the model itself guesses wrong: $(grep -A5 '"speculation"' "$tmp/r.json")"
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"name":"draft/cpu:0".*"submits":[1-9]' || fail "no device of the draft in the report"
}

# A draft with states has a copy of them in the plan, and guesses a text that is its own right.
test_draft_with_states() {
    need_shared oracles/models/qwen35.gguf
    local m=$shared/oracles/models text=(--tokens "5 9 7 5 9 7 5 9 7 5 9" -n 60 --temp 0 --json) model
    for model in qwen3 qwen35; do
        expect 0 "$stator" run "$m/$model.gguf" "${text[@]}"
        tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/off"
        expect 0 "$stator" run "$m/$model.gguf" "${text[@]}" --set speculation.mode=draft --set speculation.model="$m/qwen35.gguf" \
            --report "$tmp/r.json"
        tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/on"
        cmp "$tmp/on" "$tmp/off" || fail "$model: another text"
    done
    tr -d ' \n' <"$tmp/r.json" | grep -qE '"guessed":([1-9][0-9]*),"kept":\1,' || fail "the model itself guesses wrong: $(grep -A5 '"speculation"' "$tmp/r.json")"
    expect 0 "$stator" plan "$m/qwen35.gguf" --json --set speculation.mode=draft --set speculation.model="$m/qwen35.gguf"
    grep '"kv_bytes_per_sequence"' "$tmp/out" | grep -oE '[0-9]+' >"$tmp/states"
    [ $(($(sed -n 1p "$tmp/states") * 2)) = "$(sed -n 2p "$tmp/states")" ] || fail "states of the model and of the draft: $(cat "$tmp/states")"
    expect 0 "$stator" plan "$m/qwen3.gguf" --set speculation.mode=draft --set speculation.model="$m/qwen35.gguf"
    printed '^KV of the draft model: [0-9.]+ K?i?B a token, windows and states of [0-9.]+ KiB a sequence, on draft/cpu:0$'
    printed '^this is the plan of .* and `chat`$'
    ! grep -qE '^(checkpoints|windows and states):' "$tmp/out" || fail "the draft's states as those of the model"
}

# The draft's arenas, its file and its device are in the plan.
test_draft_plan() {
    local draft="--set speculation.mode=draft --set speculation.model=configs/demo.gguf"
    expect 0 "$stator" plan $cfg --json
    mv "$tmp/out" "$tmp/old.json"
    expect 0 "$stator" plan $cfg $draft --diff "$tmp/old.json"
    printed '^  draft none -> [0-9a-f]{32}$'
    printed '^  draft/cpu:0 weights  .*draft none -> .*, draft/cpu:0 \(new\)$'
    expect 0 "$stator" plan $cfg $draft --device level_zero:0=20MiB --set memory.driver_reserve=1MiB
    printed '^draft/level_zero:0 weights '
    printed '^    draft/level_zero:0 token_embd\.weight  '
    printed '^    level_zero:0       token_embd\.weight  '
    printed '^KV: 2\.00 KiB a token; '
    printed '^KV of the draft model: 2\.00 KiB a token, on draft/level_zero:0$'
    printed '^ +total .* of 11\.75 MiB$' # what the draft leaves
    printed '^ +total .* of 20\.00 MiB$'
    expect 3 "$stator" plan $cfg $draft --device level_zero:0=12MiB --set memory.driver_reserve=1MiB
    said 'does not fit'
    expect 0 "$stator" plan $cfg --device level_zero:0=12MiB --set memory.driver_reserve=1MiB
    # What is free is shared with the draft.
    local gpu="--device level_zero:0=17MiB --set memory.driver_reserve=1MiB"
    expect 0 "$stator" plan $cfg $draft $gpu --set memory.context=256
    printed '^KV: what is free would hold 640 tokens more'
    expect 0 "$stator" plan $cfg $draft $gpu --set memory.context=896
    expect 3 "$stator" plan $cfg $draft $gpu --set memory.context=928
    expect 0 "$stator" config $cfg $draft --set speculation.device=cpu
    printed 'device = "cpu:0";'
}

# bench lets the guesser of the config work, so that its cost counts.
test_draft_bench() {
    printf 'model = { path = "%s" };\nspeculation = { mode = "draft"; tokens = 3; model = "%s" };\n' "$PWD/configs/demo.gguf" "$PWD/configs/demo.gguf" >"$tmp/b.cfg"
    expect 0 "$stator" bench "$tmp/b.cfg" -p 0 -n 20 -r 1 --speculate 3 --accept 0,1
    said '^15 of 15 draft tokens kept'
    sed -i 's/mode = "draft"; tokens = 3; model = "[^"]*"/mode = "draft"; model = "nowhere.gguf"/' "$tmp/b.cfg"
    expect 2 "$stator" bench "$tmp/b.cfg" -p 0 -n 20 -r 1 --speculate 3
    said 'nowhere\.gguf'
    expect 0 "$stator" bench "$tmp/b.cfg" -p 0 -n 20 -r 1 --speculate 3 --accept 1 --set speculation.mode=off
}

test_draft_refused() {
    local draft="--set speculation.mode=draft --set speculation.model="
    expect 2 "$stator" plan $cfg --set speculation.mode=draft
    said 'that needs speculation.model'
    expect 2 "$stator" plan $cfg $draft/nowhere.gguf
    expect 4 "$stator" plan $cfg ${draft}Makefile
    expect 2 "$stator" plan $cfg ${draft}configs/demo.gguf --set speculation.device=gpu:0
    said 'speculation\.device.*gpu:0'
    expect 2 "$stator" plan $cfg ${draft}configs/demo.gguf --set "speculation.device=a b"
    said 'speculation\.device .*not the name of a device'
    expect 2 "$stator" plan $cfg ${draft}configs/demo.gguf --set "cluster.stages=a = cpu:0; b = cpu:0"
    said 'speculation\.mode .*several hosts'
    need_shared oracles/models/qwen35.gguf
    expect 2 "$stator" plan $cfg $draft"$shared/oracles/models/qwen3.gguf"
    said 'demo\.gguf and .*qwen3\.gguf have different vocabularies: 2048 and 512 tokens'
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

# The MTP head through the binary: text, report, plan, what is refused, and what it costs.
test_mtp() {
    local model=$tmp/qwen35-nextn.gguf mtp="--set speculation.mode=mtp"
    "${BUILD:-$(dirname "$stator")}/tests/test_peer_models" --write "$tmp" >"$tmp/names" || fail "no models"
    grep -qx qwen35-nextn "$tmp/names" || fail "no model with an MTP head"
    local text=(--tokens "5 9 7 5 9 7 5 9 7 5 9" -n 40 --json)
    for options in "--temp 0" "--temp 0.8 --seed 4"; do
        expect 0 "$stator" run "$model" $options "${text[@]}"
        tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/off"
        expect 0 "$stator" run "$model" $options $mtp --report "$tmp/r.json" "${text[@]}"
        tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/on"
        cmp "$tmp/on" "$tmp/off" || fail "$options: another text"
        tr -d ' \n' <"$tmp/r.json" | grep -qE '"speculation":\{"mode":"mtp","tokens":4,"turns":[1-9][0-9]*,"guessed":[1-9]' || fail "the report"
    done
    expect 0 "$stator" plan "$model" --json
    grep -q 'blk\.4\.' "$tmp/out" && fail "off, and in the plan"
    mv "$tmp/out" "$tmp/old.json"
    expect 0 "$stator" plan "$model" --json $mtp
    grep -q 'blk.4.nextn.eh_proj.weight' "$tmp/out" || fail "its weights are not in the plan"
    grep -q '"guess_states"' "$tmp/out" || fail "its states are not in the plan"
    expect 0 "$stator" plan "$model" $mtp --diff "$tmp/old.json"
    printed 'nextn'
    expect 2 "$stator" run $cfg $mtp -p x
    said "speculation\.mode is \"mtp\", but model 'stator demo' has no MTP head .*key 'llama\.nextn_predict_layers' is missing"
    expect 0 "$stator" bench "$model" -p 0 -n 20 -r 1 --speculate 3 --accept 0.5 $mtp -o json
}

test_server() {
    local body='{"prompt": "one two three one two three one", "max_tokens": 60, "temperature": 0, "stop": ["the end"]}' mode text
    for mode in off ngram draft; do
        serve --set speculation.mode=$mode --set speculation.model=configs/demo.gguf
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
    cmp "$tmp/off.text" "$tmp/draft.text" || fail "another answer of draft"
    grep -qE '"draft_n":([1-9][0-9]*),"draft_n_accepted":\1' "$tmp/draft.answer" || fail "the model itself guesses wrong"
    grep -qE '"draft_n":[1-9][0-9]*,"draft_n_accepted":[0-9]+' "$tmp/ngram.answer" || fail "no draft_n"
    grep -q draft_n "$tmp/off.answer" && fail "draft_n without guesses"
    grep -qE '^stator_speculation_guessed_total\{place="1"\} [1-9]' "$tmp/ngram.metrics" || fail "no guesses in /metrics"
    grep -qE '^stator_speculation_turns_total [1-9]' "$tmp/ngram.metrics" || fail "no turns in /metrics"
}

# post BODY: to /v1/completions; the answer's choices and usage, without times, in $tmp/told.
post() {
    raw '%s\r\n' 'POST /v1/completions HTTP/1.1' "Host: localhost:$port" 'Connection: close' 'Content-Type: application/json' \
        "Content-Length: ${#1}" '' "$1"
    answered 200 '"text"'
    tail -n 1 "$tmp/answer" | tr -d '\r\n' | grep -oE '"(choices|usage)":.*' | sed 's/"timings":.*//' >>"$tmp/told"
}

# A stop string that ends in a guess that was kept, at every place: text, usage and log probabilities are those without guesses. All
# guesses are right, so a string ends among them unless it is the first of a turn.
test_stop_strings() {
    local words="upon a time there was little who lived in the forest one day found said to old" mode stop
    for mode in off draft ngram; do
        serve --set speculation.mode=$mode --set speculation.model=configs/demo.gguf --set speculation.tokens=7
        ready
        : >"$tmp/told"
        for stop in $words; do
            post '{"prompt": "Once", "max_tokens": 90, "temperature": 0, "logprobs": 2, "stop": ["'$stop'", "'${stop#?}' "]}'
        done
        post '{"prompt": "Once", "max_tokens": 60, "temperature": 0.8, "seed": 3, "n": 3, "repeat_penalty": 1.1, "logprobs": 1, "stop": [". ", "ing"]}'
        mv "$tmp/told" "$tmp/$mode.told"
        get /metrics
        cp "$tmp/answer" "$tmp/$mode.metrics"
        kill -TERM $pid
        ends 0
    done
    grep -c '"finish_reason":"stop"' "$tmp/off.told" | grep -qE '^1[0-9]$' || fail "few answers end at a stop string: $(cut -c1-300 "$tmp/off.told")"
    cmp "$tmp/off.told" "$tmp/draft.told" || fail "draft: another answer"
    cmp "$tmp/off.told" "$tmp/ngram.told" || fail "ngram: another answer"
    grep -qE '^stator_speculation_kept_total\{place="7"\} [1-9]' "$tmp/draft.metrics" || fail "not all places have guesses that were kept"
}

run_tests
