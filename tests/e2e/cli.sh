# The command line: exit codes, typos, help, output that can't be written.
. tests/lib.sh

commands() { "$stator" help --json | sed -n 's/.*"command": "\(.*\)",*/\1/p'; }

test_no_arguments() {
    expect 2 "$stator"
    said '^usage: stator COMMAND'
    [ ! -s "$tmp/out" ] || fail "help went to stdout"
}

test_help() {
    expect 0 "$stator" help
    printed '^  config  '
    [ ! -s "$tmp/err" ] || fail "help went to stderr"
    for option in --help -h; do
        expect 0 "$stator" $option
        printed '^usage: stator COMMAND'
    done
    expect 0 "$stator" help --json
    printed '"command": "version"'
}

test_each_command_has_help() {
    local name n=0
    for name in $(commands); do
        expect 0 "$stator" "$name" --help
        printed "^usage: stator $name"
        printed '^  -h, --help '
        cp "$tmp/out" "$tmp/first"
        if [ "$name" != config ] && [ "$name" != devices ]; then # these are topics, too (help.sh)
            expect 0 "$stator" help "$name"
            cmp -s "$tmp/out" "$tmp/first" || fail "help $name and $name --help differ"
        fi
        expect 2 "$stator" "$name" --no-such-option-at-all
        said "^stator $name: unknown option --no-such-option-at-all"
        n=$((n + 1))
    done
    [ "$n" -ge 3 ] || fail "only $n commands"
}

# The manual page has every command with its options, every topic and every key.
test_manual_page() {
    expect 0 "$stator" help --man
    cp "$tmp/out" "$tmp/page"
    local name option topics n=0
    for name in $(commands); do
        grep -qx "\.SS stator $name" "$tmp/page" || fail "no command $name"
        for option in $("$stator" "$name" --help | grep -oE '^  (-., )?--[a-z-]+' | grep -oE '\-\-[a-z-]+' | grep -v -- --help); do
            grep -qF -- "${option//-/\\-}\\fR" "$tmp/page" || fail "no option $option of $name"
            n=$((n + 1))
        done
    done
    [ "$n" -gt 20 ] || fail "only $n options"
    for name in $("$stator" help config | grep -oE '^[a-z]+\.[a-z_]+'); do
        grep -qF "\\fB$name\\fR (" "$tmp/page" || grep -qF "\\fB${name//-/\\-}\\fR (" "$tmp/page" || fail "no key $name"
    done
    topics=$(sed -n '/^\.SH TOPICS/,/^\.SH CONFIG/p' "$tmp/page" | grep -c '^\.TP')
    [ "$topics" -ge 3 ] || fail "$topics topics"
    ! grep -qE '[0-9]{4}-[0-9]{2}-[0-9]{2}' "$tmp/page" || fail "a date in it"
    expect 2 "$stator" help --man --json
    expect 2 "$stator" help run --man
}

test_unknown_command() {
    expect 2 "$stator" vresion
    said '^stator: unknown command "vresion"; did you mean "version"'
    expect 2 "$stator" qqqqqqqqqq
    said 'unknown command "qqqqqqqqqq".*stator help'
    expect 2 "$stator" ''
    said 'unknown command ""'
    expect 2 "$stator" help confg
    said 'did you mean "config"'
    expect 2 "$stator" "$(printf 'x%.0s' $(seq 5000))"
}

test_options() {
    expect 2 "$stator" version --jsno
    said '^stator version: unknown option --jsno; did you mean --json'
    expect 2 "$stator" version extra
    said 'one argument too many: "extra"'
    expect 2 "$stator" version --json=1
    said '--json takes no value'
    expect 2 "$stator" config
    said 'an argument is missing'
    expect 2 "$stator" config --set
    said '--set needs a value'
    expect 2 "$stator" config x.cfg --set --json
    said '--set needs a value and is followed by the option --json'
    expect 2 "$stator" config ''
    said 'is not a path'
}

test_version() {
    expect 0 "$stator" version
    printed '^stator [0-9]+\.[0-9]+\.[0-9]+ '
    printed '^compiler: (gcc|clang) [0-9]'
    printed 'cpu: tiers available here: scalar'
    expect 0 "$stator" --version
    printed '^stator [0-9]'
    expect 0 "$stator" version --json
    printed '"version": "[0-9]+\.'
    printed '"tiers": \['
    printed '"scalar"'
}

test_full_disk() {
    [ -c /dev/full ] || skip "no /dev/full"
    local args
    for args in "help" "help config" "help config --json" "version" "version --json" "config --help"; do
        local got=0
        # shellcheck disable=SC2086
        "$stator" $args >/dev/full 2>"$tmp/err" || got=$?
        [ "$got" = 1 ] || fail "exit $got instead of 1: stator $args >/dev/full"
        said "^stator [a-z]+: can't write to standard output: No space left"
    done
}

test_closed_stdout() {
    local got=0
    "$stator" version >&- 2>"$tmp/err" || got=$?
    [ "$got" = 1 ] || fail "exit $got instead of 1 with stdout closed"
    said "can't write to standard output"
    got=0
    "$stator" version >/dev/null 2>&- || got=$?
    [ "$got" = 0 ] || fail "exit $got with stderr closed"
}

# The reader went away: no message, no success.
test_broken_pipe() {
    for mode in default ignored; do
        (
            [ $mode = default ] || trap '' PIPE
            exec 8> >(:)
            wait $! # nobody reads any more
            got=0
            "$stator" help config >&8 2>"$tmp/err" || got=$?
            echo "$got" >"$tmp/code"
        )
        [ -s "$tmp/code" ] || fail "the command did not end ($mode)"
        [ "$(cat "$tmp/code")" != 0 ] || fail "exit 0 ($mode)"
        [ ! -s "$tmp/err" ] || fail "it complained ($mode): $(cat "$tmp/err")"
        rm -f "$tmp/code"
    done
}

# Blocks of nextn are named: a file of one layer and one such block, without the rest.
test_inspect_nextn() {
    python3 - "$tmp/nextn.gguf" <<'PY'
import struct, sys
def text(s): return struct.pack("<Q", len(s)) + s.encode()
def u32(k, v): return text(k) + struct.pack("<II", 4, v)
def f32(k, v): return text(k) + struct.pack("<If", 6, v)
numbers = {"block_count": 2, "nextn_predict_layers": 1, "embedding_length": 64, "feed_forward_length": 64, "context_length": 64,
           "attention.head_count": 2, "attention.key_length": 32, "attention.value_length": 32, "ssm.conv_kernel": 4,
           "ssm.state_size": 32, "ssm.group_count": 1, "ssm.time_step_rank": 1, "ssm.inner_size": 32}
keys = [text("general.architecture") + struct.pack("<I", 8) + text("qwen35"), f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6)]
keys += [u32("qwen35." + k, v) for k, v in numbers.items()]
out = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys)
out += text("blk.1.nextn.enorm.weight") + struct.pack("<IQIQ", 1, 64, 0, 0)
out += b"\0" * (-len(out) % 32) + b"\0" * 256
open(sys.argv[1], "wb").write(out)
PY
    expect 4 "$stator" inspect "$tmp/nextn.gguf"
    printed '^only for speculation\.mode "mtp": 1 MTP head, 1 tensor, 256 B$'
    expect 4 "$stator" inspect "$tmp/nextn.gguf" --json
    printed '"nextn"'
}

test_other_programs_options() { # What users of llama.cpp and ollama type gets the key that stator has.
    local c=configs/demo.cfg
    expect 2 "$stator" serve $c --port 9000
    said 'unknown option --port; stator has the key server.port: --set server.port=9000'
    expect 2 "$stator" serve $c --host=0.0.0.0
    said '--set server.host=0.0.0.0'
    expect 2 "$stator" run $c -c 4096
    said 'unknown option -c; stator has the key memory.context: --set memory.context=4096'
    expect 2 "$stator" run $c -t 4
    said '--set cpu.threads=4'
    expect 2 "$stator" run $c -ngl 99
    said 'unknown option -ngl: stator places the layers itself'
    expect 2 "$stator" run $c --temperature 1
    said 'unknown option --temperature; stator has --temp$'
    expect 2 "$stator" serve $c --temperature 1
    said '--set sampling.temperature=1'
    expect 2 "$stator" run -m configs/demo.gguf
    said 'unknown option -m: .* is an argument'
    expect 2 "$stator" run -hf Qwen/Qwen3-0.6B-GGUF
    said 'downloads nothing'
    expect 2 "$stator" version --port 9000
    said 'unknown option --port'
    ! grep -q -e '--set' "$tmp/err" || fail 'version has no config, but the hint names a key'
    expect 0 "$stator" run $c -p x -n3
}

test_no_gguf() { # What is not GGUF, and names of models that are somewhere else.
    echo '{"architectures": ["Qwen3ForCausalLM"]}' >"$tmp/config.json"
    expect 2 "$stator" run "$tmp/config.json" -p x
    said 'config.json is a JSON file, not GGUF'
    printf '\x10\0\0\0\0\0\0\0{"__metadata__":{}}' >"$tmp/model.safetensors"
    expect 2 "$stator" plan "$tmp/model.safetensors"
    said 'model.safetensors is a safetensors file, not GGUF'
    expect 2 "$stator" run Qwen/Qwen3-0.6B-GGUF -p x
    said 'stator downloads nothing'
    expect 2 "$stator" run qwen3:8b -p x
    said 'stator downloads nothing'
    expect 2 "$stator" run absent/box.cfg -p x
    ! grep -q downloads "$tmp/err" || fail 'a missing config file is taken for a name'
}

run_tests
