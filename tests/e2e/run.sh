# `stator run`: where the prompt comes from, sampling, JSON, the report, signals, refusals, output that can't be written.
. tests/lib.sh
cfg=configs/demo.cfg
story='Once upon a time'

# json_ok FILE: one JSON value and nothing else. Strings go first, then scalars, then objects and arrays from the inside out.
json_ok() {
    LC_ALL=C awk '
        { text = text $0 "\n" }
        END {
            gsub(/"([^"\\\001-\037]|\\(["\\\/bfnrt]|u[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]))*"/, "S", text)
            if (text ~ /[^][{}:, \t\n][ \t\n]+[^][{}:, \t\n]/) exit 1 # no comma between two
            gsub(/[ \t\n]/, "", text)
            while (match(text, /S:[^S:{}\[\],]+/)) { # numbers and words behind a key
                v = substr(text, RSTART + 2, RLENGTH - 2)
                if (v !~ /^(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null)$/) exit 1
                text = substr(text, 1, RSTART + 1) "V" substr(text, RSTART + RLENGTH)
                sub(/S:V/, "P", text)
            }
            gsub(/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/, "V", text)
            do {
                n = gsub(/S:S/, "P", text)
                n += gsub(/\[((V|S|O)(,(V|S|O))*)?\]/, "O", text)
                n += gsub(/\{(P(,P)*)?\}/, "O", text)
                n += gsub(/S:O/, "P", text)
            } while (n > 0)
            exit text == "O" ? 0 : 1
        }' "$1"
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local n=$(($1 * 50))
    shift
    while [ $n -gt 0 ]; do
        "$@" && return 0
        sleep 0.02
        n=$((n - 1))
    done
    return 1
}

test_the_json_check_itself() {
    printf '{"a": [1, -2.5e3, "x\\"y"], "b": {"c": null, "d": []}, "e": "{"}\n' >"$tmp/good"
    json_ok "$tmp/good" || fail "good JSON is refused"
    local bad
    for bad in '{"a": 1' '{"a": 1,}' '[1 2]' '{a: 1}' '{"a": 01}' '["x' '{"a": 1} {}' '{"a": nan}' '{"a" 1}' '"x"' ''; do
        printf '%s\n' "$bad" >"$tmp/bad"
        ! json_ok "$tmp/bad" || fail "bad JSON is taken: $bad"
    done
}

# Bytes that are no UTF-8 become three tokens each.
test_prompt_of_bytes() {
    head -c 100 /dev/zero | tr '\0' '\377' >"$tmp/bytes"
    expect 0 "$stator" run $cfg -f "$tmp/bytes" -n 2
    said '^prompt +301 tokens'
    said 'warning: the prompt \(.*bytes\) is not UTF-8 text'
    printf 'ab\0cd' >"$tmp/nul"
    expect 0 "$stator" run $cfg -n 2 <"$tmp/nul"
    said 'warning: the prompt \(standard input\) has a NUL in byte 2'
    printf 'gr\303\274n' >"$tmp/text"
    expect 0 "$stator" run $cfg -f "$tmp/text" -n 2
    ! grep -q 'warning' "$tmp/err" || fail "a warning for a text"
    head -c 400 /dev/zero | tr '\0' '\377' >"$tmp/bytes"
    expect 2 "$stator" run $cfg -f "$tmp/bytes" -n 2
    said 'the prompt has 1201 tokens, memory.context is 1024'
}

test_prompt_sources() {
    expect 0 "$stator" run $cfg -p "$story" -n 20 --temp 0
    cp "$tmp/out" "$tmp/first"
    [ -s "$tmp/first" ] || fail "no text"
    printf '%s' "$story" >"$tmp/story"
    expect 0 "$stator" run $cfg -f "$tmp/story" -n 20 --temp 0
    cmp "$tmp/out" "$tmp/first" || fail "-f gives another text"
    expect 0 "$stator" run $cfg -f - -n 20 --temp 0 <"$tmp/story"
    cmp "$tmp/out" "$tmp/first" || fail "-f - gives another text"
    expect 0 "$stator" run $cfg -n 20 --temp 0 <"$tmp/story"
    cmp "$tmp/out" "$tmp/first" || fail "standard input gives another text"
    expect 0 "$stator" run $cfg --tokens "0 $("$stator" tokenize configs/demo.gguf --no-special "$story")" -n 20 --temp 0
    cmp "$tmp/out" "$tmp/first" || fail "--tokens gives another text"
    expect 0 "$stator" run configs/demo.gguf -p "$story" -n 20 --temp 0
    cmp "$tmp/out" "$tmp/first" || fail "the .gguf itself gives another text"
    expect 2 "$stator" run $cfg -p a -f "$tmp/story"
    said 'give one of -p, -f and --tokens'
    expect 2 "$stator" run $cfg -f "$tmp/none"
    said 'none can.t be opened: No such file'
    expect 0 "$stator" run $cfg -p '' -n 5 --temp 0 # its BOS
    expect 0 "$stator" run $cfg -n 5 --temp 0 </dev/null
}

test_length() {
    local n
    for n in 1 2 33; do
        expect 0 "$stator" run $cfg -p "$story" -n $n --temp 0 --json
        printed "\"generated_tokens\":$n,"
        [ "$(sed 's/.*"ids":\[\([^]]*\)\].*/\1/' "$tmp/out" | tr ',' '\n' | wc -l)" = $n ] || fail "not $n ids"
    done
    expect 0 "$stator" run $cfg -p "$story" --temp 0 --ignore-eos --set memory.context=40 --json # to the end
    printed '"generated_tokens":36,' # 5 of the prompt, 35 more, and one that the last predicts
    printed '"reason":"length"'
    expect 0 "$stator" run $cfg -p "$story" --temp 0 --json
    printed '"reason":"end of text"'
}

# Settings that leave one candidate are greedy; the seed decides the rest.
test_sampling() {
    expect 0 "$stator" run $cfg -p "$story" -n 30 --temp 0
    cp "$tmp/out" "$tmp/greedy"
    local one
    for one in '--top-k 1' '--top-p 0' '--top-p 0.0001' '--min-p 1' '--temp 0.00000001' '--temp 0.0001 --top-p 1 --min-p 0 --top-k 0'; do
        # shellcheck disable=SC2086
        expect 0 "$stator" run $cfg -p "$story" -n 30 --temp 3 --seed 5 $one
        cmp "$tmp/out" "$tmp/greedy" || fail "$one is not greedy"
    done
    local wild="--temp 2 --top-k 0 --top-p 1 --min-p 0 -n 30"
    # shellcheck disable=SC2086
    {
        expect 0 "$stator" run $cfg -p "$story" $wild --seed 1
        cp "$tmp/out" "$tmp/one"
        expect 0 "$stator" run $cfg -p "$story" $wild --seed 1 --set cpu.threads=3
        cmp "$tmp/out" "$tmp/one" || fail "the same seed gives another text"
        expect 0 "$stator" run $cfg -p "$story" $wild --set sampling.seed=1
        cmp "$tmp/out" "$tmp/one" || fail "the config's seed gives another text"
        expect 0 "$stator" run $cfg -p "$story" $wild --seed 18446744073709551615
        ! cmp -s "$tmp/out" "$tmp/one" || fail "another seed gives the same text"
        expect 0 "$stator" run $cfg -p "$story" $wild
        cp "$tmp/out" "$tmp/one"
        expect 0 "$stator" run $cfg -p "$story" $wild
        ! cmp -s "$tmp/out" "$tmp/one" || fail "without a seed twice the same text"
    }
    expect 0 "$stator" run $cfg -p 'no no no no no no' -n 30 --temp 0 --repeat-penalty 10
    cp "$tmp/out" "$tmp/one"
    expect 0 "$stator" run $cfg -p 'no no no no no no' -n 30 --temp 0
    ! cmp -s "$tmp/out" "$tmp/one" || fail "the repeat penalty changes nothing"
    cp "$tmp/out" "$tmp/one"
    for option in presence frequency; do
        expect 0 "$stator" run $cfg -p 'no no no no no no' -n 30 --temp 0 --$option-penalty 10
        ! cmp -s "$tmp/out" "$tmp/one" || fail "the $option penalty changes nothing"
        cp "$tmp/out" "$tmp/two"
        expect 0 "$stator" run $cfg -p 'no no no no no no' -n 30 --temp 0 --set sampling.${option}_penalty=10
        cmp -s "$tmp/out" "$tmp/two" || fail "the $option penalty of the config is another one"
    done
}

test_options_out_of_range() {
    local bad
    # The config and the options have one set of bounds.
    for one in top_p=0 top_p=1 min_p=0 temperature=100 repeat_penalty=0.1 repeat_penalty=10 presence_penalty=-10 presence_penalty=10 \
        frequency_penalty=-10 frequency_penalty=10 top_k=0 min_tokens=1 dry_multiplier=100 dry_base=0 dry_allowed_length=0 \
        dry_penalty_last_n=0 top_n_sigma=-1 typical_p=0 xtc_probability=1 xtc_threshold=0; do
        expect 0 "$stator" config $cfg --set sampling.$one
        option=${one%%=*}
        [ $option != temperature ] || option=temp
        expect 0 "$stator" run $cfg -p a -n 1 --${option//_/-} ${one#*=}
        expect 0 "$stator" run $cfg -p a -n 1 --set sampling.$one
    done
    for bad in '--temp -1' '--temp nan' '--temp 1000' '--temp warm' '--top-p 1.5' '--top-p -0.1' '--min-p 2' '--min-p -1' \
        '--typical-p 2' '--xtc-probability -1' '--min-tokens -1' '--dry-penalty-last-n all' '--repeat-penalty 0' '--repeat-penalty 11' '--presence-penalty 11' '--frequency-penalty -11' '--top-k -1' '--top-k 99999999999' '--top-k 1.5' '-n -1' '-n 99999999999999999999' \
        '-n x' '--seed -1' '--seed 18446744073709551616' '--set memory.context=2000000000' \
        '--set memory.context=1025' '--set memory.batch=0' '--set memory.sequences=9999999' '--set cpu.threads=100000' \
        '--set memory.staging=1' '--set memory.kv_type=q9_9' '--set devices.use=toaster' \
        '--set cpu.tier=mmx' '--set nothing' '--set memory.nothing=1'; do
        # shellcheck disable=SC2086
        expect 2 timeout 300 "$stator" run $cfg -p "$story" -n 2 $bad
        said '^stator run: .'
        ! grep -q 'sealed' "$tmp/err" || fail "the weights were loaded first: $bad"
        [ ! -s "$tmp/out" ] || fail "text came out: $bad"
    done
    # So is a prompt that is too long.
    expect 2 timeout 300 "$stator" run $cfg -p "$story $story $story" -n 2 --set memory.context=5
    said 'memory.context is 5'
    ! grep -q 'sealed' "$tmp/err" || fail "the weights were loaded first"
}

test_bad_prompts() {
    expect 2 "$stator" run $cfg --tokens ''
    said 'the prompt is empty'
    expect 2 "$stator" run $cfg --tokens '1 two 3'
    said '"two" is not a token id'
    expect 2 "$stator" run $cfg --tokens '1 -2'
    said '"-2" is not a token id'
    expect 2 "$stator" run $cfg --tokens '1 99999999999999999999'
    expect 2 "$stator" run $cfg --tokens '1 2048'
    said 'token 1 of the prompt is 2048.*0 \.\. 2047'
    expect 2 "$stator" run $cfg --tokens "$(seq -s ' ' 0 1024)"
    said 'has 1025 tokens, memory.context is 1024'
    expect 0 "$stator" run $cfg --tokens "$(seq -s ' ' 0 1023)" -n 5 --temp 0 --json
    printed '"generated_tokens":1,'
    head -c 20000 /dev/zero | tr '\0' 'a' >"$tmp/long"
    expect 2 "$stator" run $cfg -f "$tmp/long"
    said 'has [0-9]+ tokens, memory.context is 1024'
    head -c 1048576 /dev/zero | tr '\0' 'a' >"$tmp/long"
    expect 2 timeout 300 "$stator" run $cfg -f "$tmp/long"
    said 'a text of 1048576 bytes|has [0-9]+ tokens'
    head -c 3000 /dev/urandom >"$tmp/noise" # any bytes are a prompt; it may be too long
    local got=0
    timeout 300 "$stator" run $cfg -f "$tmp/noise" -n 3 >"$tmp/out" 2>"$tmp/err" || got=$?
    [ $got = 0 ] || [ $got = 2 ] || fail "exit $got for a prompt of noise"
}

test_smallest_sizes() {
    expect 0 "$stator" run $cfg --tokens 0 --temp 0 --set memory.context=1 --json
    printed '"generated_tokens":1,'
    expect 2 "$stator" run $cfg --tokens '0 1' --set memory.context=1
    said 'has 2 tokens, memory.context is 1'
    expect 0 "$stator" run $cfg -p "$story" -n 40 --temp 0
    cp "$tmp/out" "$tmp/usual"
    expect 0 "$stator" run $cfg -p "$story" -n 40 --temp 0 --set memory.batch=1
    cmp "$tmp/out" "$tmp/usual" || fail "batch 1 gives another text"
    expect 0 "$stator" run $cfg -p "$story" -n 40 --temp 0 --set memory.context=44
    cmp "$tmp/out" "$tmp/usual" || fail "context 44 gives another text"
}

test_tiers() {
    expect 0 "$stator" run $cfg -p "$story" -n 60 --temp 0
    cp "$tmp/out" "$tmp/best"
    local tier
    for tier in $("$stator" version --json | sed -n '/"tiers"/,/\]/s/^ *"\([a-z0-9]*\)",*$/\1/p'); do
        expect 0 "$stator" run $cfg -p "$story" -n 60 --temp 0 --set cpu.tier="$tier"
        cmp "$tmp/out" "$tmp/best" || fail "tier $tier gives another text"
        said "\\($tier, "
    done
    said '^generation +60 tokens'
}

test_json() {
    expect 0 "$stator" run $cfg -p "$story" -n 20 --temp 0 --json
    json_ok "$tmp/out" || fail "no JSON: $(cat "$tmp/out")"
    [ "$(wc -l <"$tmp/out")" = 1 ] || fail "not one line"
    printed '"ids":\[13,'
    printed '"text":", there'
    printed '"timings":\{.*"load_s":.*"prompt_s":.*"generate_s":'
    printed '"memory":\[\{"place":"cpu:0","arena":"weights","planned":[0-9]+,"allocated":[0-9]+,"used":[0-9]+\}'
    printed "\"plan\":\"$("$stator" plan $cfg 2>/dev/null | sed -n 's/^plan //p')\""
    expect 0 "$stator" run $cfg --tokens '0 1 2 3 256 257' -n 200 --temp 100 --top-k 0 --top-p 1 --min-p 0 --seed 3 --ignore-eos --json
    json_ok "$tmp/out" || fail "no JSON for wild text"
    iconv -f utf-8 -t utf-8 "$tmp/out" >/dev/null || fail "not UTF-8"
}

# A model without tokenizer keys runs on ids.
test_ids_only() {
    local key
    for key in tokenizer.ggml.model tokenizer.ggml.tokens; do
        LC_ALL=C sed "s/$key/xokenizer${key#tokenizer}/" configs/demo.gguf >"$tmp/ids.gguf"
        expect 0 "$stator" run configs/demo.gguf --tokens '1 2 3' -n 5 --temp 0 --json
        ids=$(sed -n 's/.*"ids":\[\([^]]*\)\].*/\1/p' "$tmp/out")
        expect 0 "$stator" run "$tmp/ids.gguf" --tokens '1 2 3' -n 5 --temp 0
        [ "$(cat "$tmp/out")" = "${ids//,/ }" ] || fail "$(cat "$tmp/out"), expected $ids"
        said "no texts with this model, only token ids"
        expect 0 "$stator" run "$tmp/ids.gguf" --tokens '1 2 3' -n 5 --temp 0 --json
        printed "\"ids\":\[$ids\],\"text\":\"\""
        expect 4 "$stator" run "$tmp/ids.gguf" -p hello -n 2
        said "key '$key' is missing"
    done
}

test_report() {
    expect 0 "$stator" run $cfg -p "$story" -n 20 --temp 0 --report "$tmp/report" --set cpu.threads=2
    json_ok "$tmp/report" || fail "no JSON"
    local part
    for part in "\"hash\": \"$("$stator" plan $cfg 2>/dev/null | sed -n 's/^plan //p')\"" '"tier": "' '"threads": 2' '"devices": \[' \
        '"name": "cpu:0"' '"kind": "cpu"' '"layers": 8' '"arena_bytes": \{' '"submits": 20' '"kernels_executed": [1-9]' \
        '"direct_bytes": 0' '"staged_bytes": 0' '"host_bytes": [1-9]'; do
        grep -qE "$part" "$tmp/report" || fail "the report has no $part"
    done
    expect 0 "$stator" run $cfg -p "$story" -n 2 --report -
    grep -q '"hash": ' "$tmp/out" || fail "--report - is not on standard output"
    expect 1 "$stator" run $cfg -p "$story" -n 2 --report "$tmp/none/report"
    said '--report .*none/report can.t be written: No such file'
}

test_expect_plan() {
    local hash
    hash=$("$stator" plan $cfg 2>/dev/null | sed -n 's/^plan //p')
    [ ${#hash} = 32 ] || fail "hash '$hash'"
    expect 0 "$stator" run $cfg -p "$story" -n 2 --expect-plan "$hash"
    local wrong
    for wrong in 00000000000000000000000000000000 "${hash}0" "${hash%?}" ''; do
        expect 3 "$stator" run $cfg -p "$story" -n 2 --expect-plan "$wrong"
        said "the plan's hash is $hash"
        [ ! -s "$tmp/out" ] || fail "text came out"
    done
    # No weight is read: the refusal is the same for a file whose weights are damaged and unreadable for the loader.
    command -v strace >/dev/null || return 0 # (the leak checker does not work under it)
    expect 3 env ASAN_OPTIONS=detect_leaks=0 strace -f -P configs/demo.gguf -e trace=pread64 -o "$tmp/trace" "$stator" run $cfg -p "$story" -n 2 --expect-plan 0
    # Header and directory are in the first 256 KiB.
    local beyond='pread64.*, (26214[4-9]|2621[5-9].|262[2-9]..|26[3-9]...|2[7-9]....|[3-9].....|[0-9]{7,})\) ='
    ! grep -qE "$beyond" "$tmp/trace" || fail "it read: $(grep -E "$beyond" "$tmp/trace" | head -2)"
    expect 0 env ASAN_OPTIONS=detect_leaks=0 strace -f -P configs/demo.gguf -e trace=pread64 -o "$tmp/trace" "$stator" run $cfg -p "$story" -n 2
    grep -qE "$beyond" "$tmp/trace" || fail "strace sees no read of weights"
}

# Text so far on stdout, the report on stderr, exit 0.
test_signals_while_generating() {
    local signal
    for signal in INT TERM; do
        rm -f "$tmp/out" "$tmp/report"
        # An interactive shell's child: a background job of a script ignores SIGINT from birth, and bash can't undo that.
        env --default-signal=INT,TERM "$stator" run $cfg -p "$story" --ignore-eos --seed 1 --set cpu.tier=scalar --set cpu.threads=1 \
            --report "$tmp/report" >"$tmp/out" 2>"$tmp/err" &
        local pid=$! got=0
        wait_for 300 [ -s "$tmp/out" ] || fail "no text"
        kill -$signal $pid
        wait $pid || got=$?
        [ $got = 0 ] || fail "SIG$signal: exit $got: $(cat "$tmp/err")"
        said 'ended by: cancelled'
        said '^host +staging '
        json_ok "$tmp/report" || fail "no report"
        iconv -f utf-8 -t utf-8 "$tmp/out" >/dev/null || fail "cut inside a character"
        local n
        n=$(sed -n 's/^generation *\([0-9]*\) tokens.*/\1/p' "$tmp/err")
        [ "$n" -gt 0 ] && [ "$n" -lt 1019 ] || fail "$n tokens"
        cp "$tmp/out" "$tmp/cut"
        expect 0 "$stator" run $cfg -p "$story" --ignore-eos --seed 1 -n "$n"
        cmp "$tmp/out" "$tmp/cut" || fail "stdout does not hold the $n tokens so far"
    done
}

# At any time from the start on: it ends soon, by the signal before the engine is there, else with 0 or an error of its own.
test_signals_at_any_time() {
    local i
    for i in 0 1 2 3 4 6 8 10 14 18 24 30; do
        "$stator" run $cfg -p "$story" --ignore-eos --set cpu.tier=scalar --set cpu.threads=1 >"$tmp/out" 2>"$tmp/err" &
        local pid=$! got=0
        sleep "$(printf '0.%03d' "$i")"
        kill -TERM $pid 2>/dev/null
        wait $pid || got=$? # tests/run ends what never ends
        case $got in
        0) said 'ended by: cancelled' ;;
        1) said 'stopped while loading' ;;
        143) ;;
        *) fail "exit $got after $i ms: $(cat "$tmp/err")" ;;
        esac
    done
}

test_output_fails() {
    if [ -c /dev/full ]; then
        local got mode
        for mode in '' --json; do
            got=0
            # shellcheck disable=SC2086
            timeout 300 "$stator" run $cfg -p "$story" --temp 0 -n 100 $mode >/dev/full 2>"$tmp/err" || got=$?
            [ $got = 1 ] || fail "exit $got with a full disk ($mode)"
            said '^stator run: .*(full|No space)'
        done
    fi
    local got=0
    timeout 300 "$stator" run $cfg -p "$story" --temp 0 >&- 2>"$tmp/err" || got=$?
    [ $got = 1 ] || fail "exit $got with stdout closed"
    # The reader goes away: it ends, and not for the time-out.
    timeout 300 "$stator" run $cfg -p "$story" --temp 0 --ignore-eos 2>/dev/null | head -c 10 >"$tmp/ten"
    [ "${PIPESTATUS[0]}" != 124 ] || fail "a closed pipe did not end it"
    (trap '' PIPE; timeout 300 "$stator" run $cfg -p "$story" --temp 0 --ignore-eos 2>/dev/null | head -c 10 >/dev/null
        [ "${PIPESTATUS[0]}" != 124 ]) || fail "a closed pipe did not end it, where SIGPIPE is ignored"
    [ "$(cat "$tmp/ten")" = ', there li' ] || fail "ten bytes: $(cat "$tmp/ten")"
}

# A reader that is slow when the signal comes loses nothing of what was generated.
test_signal_with_a_slow_reader() {
    mkfifo "$tmp/pipe"
    "$stator" run $cfg -p "$story" --ignore-eos --seed 1 --json --set cpu.tier=scalar >"$tmp/pipe" 2>"$tmp/err" &
    local pid=$! got=0
    exec 9<"$tmp/pipe"
    sleep 0.1
    kill -TERM $pid
    sleep 0.1
    cat <&9 >"$tmp/out"
    exec 9<&-
    wait $pid || got=$?
    case $got in
    0) json_ok "$tmp/out" || fail "cut off" ;;
    1) said 'stopped while loading' ;;
    143) ;;
    *) fail "exit $got" ;;
    esac
}

test_bad_models() {
    LC_ALL=C sed 's/\(general.architecture.\{12\}\)llama/\1lluma/' configs/demo.gguf >"$tmp/odd.gguf"
    expect 4 "$stator" run "$tmp/odd.gguf" -p "$story" -n 2
    said "odd.gguf.*'lluma' is not supported .its nearest relative that is: llama; .*known ones"
    head -c 3000000 configs/demo.gguf >"$tmp/cut.gguf"
    expect 4 "$stator" run "$tmp/cut.gguf" -p "$story" -n 2
    said "cut.gguf: .*tensor '.*truncated"
    expect 2 "$stator" run "$tmp/none.gguf" -p "$story"
    said 'none.gguf'
    expect 2 "$stator" run "$tmp/none.cfg" -p "$story"
}

test_devices() {
    expect 5 "$stator" run $cfg -p "$story" -n 2 --set devices.use=level_zero:0
    said 'level_zero:0'
    [ ! -s "$tmp/out" ] || fail "text came out"
    local name
    for name in auto cpu cpu:0; do
        expect 0 "$stator" run $cfg -p "$story" -n 2 --temp 0 --set devices.use=$name
    done
}

# number NAME: the value of "NAME": in the plan's JSON.
number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$tmp/out" | head -1; }

# fits WHAT VALUE CODE SET...: a plan with memory.WHAT=VALUE ends with CODE.
planned() {
    local what=$1 value=$2 code=$3
    shift 3
    expect "$code" "$stator" plan $cfg "$@" --set "memory.$what=$value" --json
}

# The three sizes matter in different degrees; each search has to find its border.
test_does_not_fit() {
    local sets what largest next
    for sets in "--set memory.host_limit=26MiB" "--set memory.host_limit=40MiB --set memory.sequences=20 --set memory.batch=400" \
        "--set memory.host_limit=24MiB --set memory.staging=1MiB --set memory.batch=8000 --set memory.sequences=3" \
        "--set memory.host_limit=40MiB --set memory.sequences=60 --set memory.batch=60 --set memory.context=300" \
        "--set memory.host_limit=18MiB"; do
        # shellcheck disable=SC2086
        {
            expect 3 "$stator" run $cfg -p "$story" -n 2 $sets
            said 'does not fit: host needs [0-9.]+ [KMG]iB of [0-9.]+ [KMG]iB, [0-9.]+ [KMG]iB too much'
            [ ! -s "$tmp/out" ] || fail "text came out"
            expect 3 "$stator" plan $cfg $sets --json
            cp "$tmp/out" "$tmp/short"
            [ $(($(sed -n '/"host"/,$s/.*"total": \([0-9]*\).*/\1/p' "$tmp/out") - $(number limit))) = \
                "$(sed -n '/"short"/,$s/.*"bytes": \([0-9]*\).*/\1/p' "$tmp/out")" ] || fail "the shortage is wrong: $(cat "$tmp/out")"
            for what in context batch sequences; do
                cp "$tmp/short" "$tmp/out"
                largest=$(number largest_$what)
                [ -n "$largest" ] || fail "no largest_$what"
                if [ "$largest" -gt 0 ]; then
                    planned $what "$largest" 0 $sets
                    expect 0 "$stator" run $cfg -p a -n 2 $sets --set memory.$what="$largest"
                fi
                next=$((largest + 1))
                [ $what != context ] || next=$((largest + 32)) # whole KV blocks
                # A batch has a token of every sequence at least.
                case "$what $largest $sets" in "batch 0 "*sequences=*) next=$(sed 's/.*sequences=\([0-9]*\).*/\1/' <<<"$sets") ;; esac
                planned $what $next 3 $sets
            done
        }
    done
}

run_tests
