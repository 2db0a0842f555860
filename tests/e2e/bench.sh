# `stator bench`: the shape of its three outputs, the context that it sets, errors, Ctrl-C.
. tests/lib.sh
demo=configs/demo.gguf
small=(-p 16,24 -n 4 -d 0,8 -r 2 --set memory.batch=32)

test_markdown() {
    expect 0 "$stator" bench "$demo" "${small[@]}"
    printed '^\| model +\| +size \| +params \| backend +\| threads \| +test \| +t/s \|$'
    [ "$(wc -l <"$tmp/out")" = 8 ] || fail "not 2 lines of head and 6 of tests: $(cat "$tmp/out")"
    tests=$(awk -F '|' 'NR > 2 { gsub(/ /, "", $7); printf "%s ", $7 }' "$tmp/out")
    [ "$tests" = "pp16 pp24 tg4 pp16@d8 pp24@d8 tg4@d8 " ] || fail "tests: $tests"
    printed '^\| llama 6M Q8_0 +\| +5\.86 MiB \| +5\.77 M \| CPU [a-z0-9]+ +\| +[0-9]+ \| +pp16 \| +[0-9]+\.[0-9]+ ± [0-9]+\.[0-9]+ \|$'
    said '6145024 bytes of weights; [0-9]+ threads, tier [a-z]'
    [ "$(grep -c '^the context of 8 tokens was computed at [0-9.]* tokens/s$' "$tmp/err")" = 3 ] || fail "fill: $(cat "$tmp/err")"
}

# value KEY: of the JSON's rows, in order.
values() { sed -n "s/^ *\"$1\": \(.*[^,]\),*\$/\1/p" "$tmp/out" | tr '\n' ' '; }

test_json() {
    expect 0 "$stator" bench "$demo" -p 16 -n 4 -d 0,8 -r 3 --parallel 1,3 --set cpu.threads=2 --set cpu.tier=scalar -o json
    [ "$(head -c 1 "$tmp/out")" = '[' ] && [ "$(tail -n 1 "$tmp/out")" = ']' ] || fail "no array: $(cat "$tmp/out")"
    [ "$(values test)" = '"pp16" "tg4" "tg4 x3" "pp16 @ d8" "tg4 @ d8" "tg4 x3 @ d8" ' ] || fail "test: $(values test)"
    [ "$(values n_prompt)" = '16 0 0 16 0 0 ' ] || fail "n_prompt: $(values n_prompt)"
    [ "$(values n_gen)" = '0 4 4 0 4 4 ' ] || fail "n_gen: $(values n_gen)"
    [ "$(values n_depth)" = '0 0 0 8 8 8 ' ] || fail "n_depth: $(values n_depth)"
    [ "$(values n_parallel)" = '1 1 3 1 1 3 ' ] || fail "n_parallel: $(values n_parallel)"
    [ "$(values threads)" = '2 2 2 2 2 2 ' ] || fail "threads: $(values threads)"
    [ "$(values tier | tr ' ' '\n' | sort -u | tr -d '\n')" = '"scalar"' ] || fail "tier: $(values tier)"
    [ "$(values backend | tr ' ' '\n' | sort -u | tr -d '\n')" = '"CPU"' ] || fail "backend: $(values backend)"
    [ "$(values model_bytes | tr ' ' '\n' | sort -u | tr -d '\n')" = 6145024 ] || fail "model_bytes: $(values model_bytes)"
    printed '"model": "llama 6M Q8_0"'
    # How fast a context was computed: where there is one.
    values fill_ts | awk '{ exit !(NF == 6 && $1 == 0 && $2 == 0 && $3 == 0 && $4 > 0 && $5 > 0 && $6 == 0) }' ||
        fail "fill_ts: $(values fill_ts)"
    # Each row: three samples, all above 0, whose mean and deviation are the row's.
    awk '/"avg_ts"/ { avg = $2 + 0 } /"stddev_ts"/ { dev = $2 + 0 }
         /"samples_ts"/ { n = 0; sum = 0; inside = 1; next }
         inside && /\]/ { inside = 0; rows++; mean = sum / n; q = 0
                          for (i = 1; i <= n; i++) q += (v[i] - mean) ^ 2
                          if (n != 3 || mean <= 0 || (mean / avg - 1) ^ 2 > 1e-8 || (sqrt(q / (n - 1)) - dev) ^ 2 > 1e-6 * mean ^ 2) bad = 1 }
         inside { v[++n] = $1 + 0; sum += $1; if ($1 + 0 <= 0) bad = 1 }
         END { exit bad || rows != 6 }' "$tmp/out" || fail "samples do not fit: $(cat "$tmp/out")"
    expect 0 "$stator" bench "$demo" -p 16 -n 0 -r 1 --json
    printed '"test": "pp16"'
}

test_csv() {
    expect 0 "$stator" bench "$demo" "${small[@]}" -o csv
    [ "$(wc -l <"$tmp/out")" = 7 ] || fail "not 7 lines: $(cat "$tmp/out")"
    head -n 1 "$tmp/out" | grep -q '^test,n_prompt,n_gen,n_depth,.*avg_ts,stddev_ts,.*threads,backend,tier,model,model_path,model_bytes' ||
        fail "head: $(head -n 1 "$tmp/out")"
    [ "$(awk -F , '{ print NF }' "$tmp/out" | sort -u | wc -l)" = 1 ] || fail "lines differ in their fields"
    printed '^"tg4 @ d8",0,4,8,1,2,[0-9.]+,[0-9.]+,'
    awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "fill_ts") at = i } NR > 1 && ($4 > 0) != ($at > 0) { bad = 1 }
        END { exit bad || !at }' "$tmp/out" || fail "fill_ts: $(cat "$tmp/out")"
}

test_roofline() {
    expect 0 "$stator" bench "$demo" -p 16 -n 4 -r 1 --roofline
    printed '\| +of limit \|$'
    printed '\| +pp16 \|.*\| +([0-9.]+% of [0-9.]+ TOPS \([A-Z0-9]+\)|-) \|$'
    printed '\| +tg4 \|.*\| +[0-9.]+, [0-9.]+ MB \| +[0-9.]+% of [0-9.]+ GB/s \|$'
    expect 0 "$stator" bench "$demo" -p 0 -n 4 -d 64 -r 1 --roofline -o json
    # fraction = (weights + 66.5 tokens of cache) * rate / bandwidth
    awk -F '[:,]' '/"avg_ts"/ { rate = $2 } /"read_gb_per_s"/ { limit = $2 * 1e9 } /"step_read_bytes"/ { w = $2 }
        /"context_read_bytes"/ { c = $2 } /"limit_fraction"/ { f = $2 }
        END { want = (w + 66.5 * c) * rate / limit; exit !(w > 5e6 && c > 0 && limit > 1e8 && (want / f - 1) ^ 2 < 1e-8) }' "$tmp/out" ||
        fail "limit_fraction does not follow: $(cat "$tmp/out")"
}

# Without memory.context the tests get what they need; with one they must fit.
test_context() {
    expect 0 "$stator" bench "$demo" -p 16 -n 8 -d 100 -r 1 -o json
    [ "$(values context)" = '116 116 ' ] || fail "context: $(values context)"
    expect 0 "$stator" bench "$demo" -p 16 -n 8 -d 100 -r 1 -o json --set memory.context=116
    expect 2 "$stator" bench "$demo" -p 16 -n 8 -d 100 -r 1 --set memory.context=115
    said '^stator bench: pp16 @ d100 needs a context of 116 tokens, memory.context is 115: set memory.context=116, or leave it out'
    [ ! -s "$tmp/out" ] || fail "something was printed"
    expect 2 "$stator" bench "$demo" -p 1000 -d 100 -r 1
    said 'pp1000 @ d100: memory.context = 1100: this model was trained for 1024 tokens'
    expect 2 "$stator" bench "$demo" -p 0 -n 4 -r 1 --parallel 4 --set memory.logits_rows=2
    said 'memory.logits_rows is 2: 4 sequences'
}

# Guesses with a share that is right: all of them with 1, none with 0, and then few are made.
test_speculate() {
    expect 0 "$stator" bench "$demo" -p 0 -n 50 -r 2 --speculate 4 --accept 0,1 -o json
    printed '"test": "tg50"'
    printed '"test": "tg50 \+4 a1"'
    printed '"accept": 1,'
    # A reader that is slow (a busy machine) makes guesses fewer.
    tr -d ' \n' <"$tmp/out" | grep -qE '"accept":1,"n_guessed":([1-9][0-9]*),"n_kept":\1,"tokens_per_turn":[1-5]' || fail "not all draft tokens kept"
    tr -d ' \n' <"$tmp/out" | grep -qE '"accept":0,"n_guessed":([1-9]|[1-3][0-9]),"n_kept":0,"tokens_per_turn":1,' || fail "wrong guesses are not few"
    expect 0 "$stator" bench "$demo" -p 0 -n 20 -d 5 -r 1 --speculate 2 --accept 0.5
    printed '\| tg20 \+2 a0\.5 @ d5 \|'
    said '^[0-9]+ of [0-9]+ draft tokens kept, [0-9.]+ tokens in a turn$'
    expect 2 "$stator" bench "$demo" --speculate 17
    expect 2 "$stator" bench "$demo" --accept 0.5
    said '--accept is for --speculate'
    expect 2 "$stator" bench "$demo" --speculate 4 --accept 0.5,1.5
    said '--accept is "0.5,1.5"; expected numbers from 0 to 1'
}

# Of a model that makes embeddings: prompts.
test_embeddings() {
    expect 0 "$stator" bench "$demo" -p 16,24 -n 0 -r 2 --set model.pooling=mean -o csv
    [ "$(wc -l <"$tmp/out")" = 3 ] || fail "not two rows: $(cat "$tmp/out")"
    awk -F , 'NR > 1 && !($9 > 0) { exit 1 }' "$tmp/out" || fail "a rate is not above 0: $(cat "$tmp/out")"
    expect 2 "$stator" bench "$demo" -p 16 -n 4 --set model.pooling=last
    said 'tg4: this model makes embeddings or scores .its pooling is "last".*give -n 0'
    expect 2 "$stator" bench "$demo" -p 16 -n 0 -d 8 --set model.pooling=last
    said 'pp16 @ d8: this model makes embeddings'
}

test_errors() {
    local value
    for value in '' x 1,,2 1, 99999999999 -1 1.5; do
        expect 2 "$stator" bench "$demo" "-p$value" -r 1
        [ -n "$value" ] && said '^stator bench: -p is ".*"; expected whole numbers from 0 on'
    done
    expect 2 "$stator" bench "$demo" --parallel 0
    said 'parallel is "0"; expected whole numbers from 1 on'
    expect 2 "$stator" bench "$demo" -p 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
    said 'more than 16 values'
    expect 2 "$stator" bench "$demo" -p 0 -n 0
    said 'nothing to measure'
    expect 2 "$stator" bench "$demo" -o html
    said '-o is "html"; expected md, json or csv'
    expect 2 "$stator" bench "$demo" -r 0
    expect 2 "$stator" bench
    expect 2 "$stator" bench "$tmp/absent.gguf"
    expect 3 "$stator" bench "$demo" -p 16 -n 4 -r 1 --set memory.staging=1MiB --set memory.host_limit=4MiB
    said 'does not fit'
    if [ -w /dev/full ]; then
        "$stator" bench "$demo" -p 16 -n 0 -r 1 >/dev/full 2>"$tmp/err"
        [ $? = 1 ] || fail "a full disk passes unseen"
        said "can't write to standard output"
    fi
}

test_report() {
    expect 0 "$stator" bench "$demo" -p 16 -n 4 -r 1 --report "$tmp/report.json"
    grep -q '"submits"' "$tmp/report.json" || fail "no report"
}

# Ctrl-C: what was measured is printed, the output is whole, the exit code 0.
test_signal() {
    local pid i
    "$stator" bench "$demo" -p 16 -n 900 -r 100 -o json >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    for i in $(seq 3000); do
        grep -q '"pp16"' "$tmp/out" && break
        sleep 0.1
    done
    kill -INT "$pid"
    wait "$pid"
    [ $? = 0 ] || fail "exit code $?"
    printed '"test": "pp16"'
    [ "$(tail -n 1 "$tmp/out")" = ']' ] || fail "the array is not closed"
    said 'stopped by a signal'
}

# make bench-kernels builds it; it must run in every tier of this machine.
test_kernels() {
    local program=${BUILD:-}/bench_kernels tiers
    [ -x "$program" ] || skip "no bench_kernels in BUILD"
    expect 0 "$program" --kernel q8_0 --tokens 1,2 --seconds 0.001 --megabytes 16
    tiers=$("$stator" version | sed -n 's/.*tiers available here: //p')
    [ "$(grep -c 'matmul q8_0' "$tmp/out")" = "$((2 * $(echo "$tiers" | wc -w)))" ] || fail "rows: $(cat "$tmp/out")"
    printed '^\| scalar  \| matmul q8_0 +\| +2 \| +[0-9.]+ \| +[0-9.]+% \| +[0-9.]+ \| '
    printed 'limits beside the rows: read [0-9.]+ to [0-9.]+ GB/s'
    expect 0 "$program" --kernel norm --tokens 1,3 --seconds 0.001 --megabytes 16 --tier scalar
    printed '^\| scalar +\| op norm +\| +3 \| +[0-9.]+ \| '
    expect 0 "$program" --device cpu:0 --kernel 'op attention, q8_0' --tokens 1 --seconds 0.001
    printed '\| op attention, q8_0 +\| +1 \| +[0-9.]+ \| '
    expect 2 "$program" --tier none
    expect 2 "$program" --tokens 0
}

# tools/bench_formats: ratios to Q8_0 are stored, and what falls is named.
test_formats() {
    local formats="tools/bench_formats --tier scalar --format q4_0 --rounds 1 --seconds 0.001 --stored $tmp/ratios"
    [ -x "${BUILD:-}/bench_kernels" ] || skip "no bench_kernels in BUILD"
    : >"$tmp/ratios"
    expect 3 $formats
    said 'no ratios are stored'
    expect 0 $formats --update
    [ "$(grep -cE '^[^ ]+ scalar q4_0 (1|16) [0-9.]+$' "$tmp/ratios")" = 2 ] || fail "stored: $(cat "$tmp/ratios")"
    sed -i 's/ [0-9.]*$/ 0.001/' "$tmp/ratios"
    expect 0 $formats
    printed 'nothing fell'
    sed -i 's/ [0-9.]*$/ 1000/' "$tmp/ratios"
    expect 1 $formats
    printed 'FELL scalar q4_0, 16 tokens: [0-9.]+ of Q8_0'
    expect 2 $formats --tier none
    expect 2 $formats --rounds
}

run_tests
