# `stator config` and `stator help config`.
. tests/lib.sh

test_origins() {
    mkdir "$tmp/a b"
    printf 'model = { path = "models/x.gguf" }\nmemory = { context = 77 }\n' >"$tmp/a b/x.cfg"
    expect 0 "$stator" config "$tmp/a b/x.cfg" --set cpu.threads=3
    printed 'path = "/.*/a b/models/x\.gguf"; +# .*x\.cfg:1$'
    printed 'context = 77; +# .*x\.cfg:2$'
    printed 'threads = 3; +# --set$'
    printed 'batch = 512; +# default$'
}

# Its output is a config file that resolves to the same values, wherever it lies.
test_round_trip() {
    local form
    mkdir "$tmp/here" "$tmp/there"
    for form in 'kv_type = "q8_0";' 'kv_type_k = "q8_0"; kv_type_v = "f32";' 'kv_type_v = "q4_0";' ''; do
        cat >"$tmp/here/x.cfg" <<END
model = { path = "x \"quoted\" \\\\ \xC3\xA9.gguf" }
devices = { use = ["cpu:0", "cpu:1"]; split = [1, 3] }
memory = { $form context = "auto"; host_limit = 123456789012; staging = "1.5MiB" }
sampling = { temperature = 0.1; top_p = 1; seed = "18446744073709551614" }
log = { file = "run.log" }
END
        expect 0 "$stator" config "$tmp/here/x.cfg" --set cpu.tier=scalar --set cache.dir=rel
        cp "$tmp/out" "$tmp/there/y.cfg"
        expect 0 "$stator" config "$tmp/there/y.cfg"
        sed 's/ *#.*//' "$tmp/there/y.cfg" >"$tmp/first"
        sed 's/ *#.*//' "$tmp/out" >"$tmp/second"
        cmp "$tmp/first" "$tmp/second" || fail "the values differ: $(diff "$tmp/first" "$tmp/second")"
        [ "$(wc -l <"$tmp/first")" -gt 40 ] || fail "keys are missing"
        # The JSON of both says the same values too, kv types resolved.
        expect 0 "$stator" config "$tmp/here/x.cfg" --set cpu.tier=scalar --set cache.dir=rel --json
        grep -v '"from"' "$tmp/out" >"$tmp/first"
        expect 0 "$stator" config "$tmp/there/y.cfg" --json
        grep -v '"from"' "$tmp/out" >"$tmp/second"
        cmp "$tmp/first" "$tmp/second" || fail "the JSON differs: $(diff "$tmp/first" "$tmp/second")"
    done
}

test_model_as_config() {
    printf 'GGUF\003\000\000\000' >"$tmp/model.bin"
    expect 0 "$stator" config "$tmp/model.bin"
    printed 'path = "/.*/model\.bin"'
}

# Relative to the config file, not to the current folder; --set to the current folder.
test_relative_paths() {
    local binary
    binary=$(realpath "$stator")
    mkdir -p "$tmp/configs" "$tmp/elsewhere"
    echo 'model = { path = "../m.gguf" }' >"$tmp/configs/x.cfg"
    cd "$tmp/elsewhere" || fail cd
    expect 0 "$binary" config ../configs/x.cfg --set log.file=here.log
    printed "path = \"$(realpath "$tmp")/configs/\.\./m\.gguf\""
    printed "file = \"$(realpath "$tmp")/elsewhere/here\.log\""
    expect 0 sh -c "cat ../configs/x.cfg | '$binary' config /dev/stdin"
    printed "path = \"$(realpath "$tmp")/elsewhere/\.\./m\.gguf\""
}

test_bad_files() {
    expect 2 "$stator" config "$tmp/none.cfg"
    said "^stator config: can't open .*none\.cfg: No such file"
    expect 2 "$stator" config "$tmp"
    said 'is a folder'
    : >"$tmp/empty.cfg"
    expect 2 "$stator" config "$tmp/empty.cfg"
    said 'model\.path is missing'
    head -c 3000 "$stator" >"$tmp/binary.cfg"
    expect 2 timeout 300 "$stator" config "$tmp/binary.cfg"
    said 'not a config file'
    truncate -s 100M "$tmp/large.cfg"
    expect 2 timeout 300 "$stator" config "$tmp/large.cfg"
    said 'larger than 1 MiB'
    expect 2 timeout 300 "$stator" config /dev/zero
    echo 'model = { path = "x.gguf"; pth = 1 }' >"$tmp/typo.cfg"
    expect 2 "$stator" config "$tmp/typo.cfg"
    said 'typo\.cfg:1: unknown key "pth" in section model; did you mean "path"'
}

# Every section and key of what there is of CLI.md's list, and the table printed whole. The keys of sampling are the rows of
# sampling.def.
test_help_config() {
    expect 0 "$stator" help config
    local key sampling n=0
    sampling=$(sed -n 's/^SAMPLING_[A-Z]*(\([a-z_]*\), [A-Z].*/sampling.\1/p' src/config/sampling.def | grep -v '\.name$')
    [ "$(echo "$sampling" | wc -l)" -ge 8 ] || fail "sampling.def has the rows: $sampling"
    for key in model.path model.pooling model.vision model.name vision.max_pixels vision.pictures vision.decode vision.device devices.use devices.split devices.groups devices.facts devices.deadline cluster.stages memory.context memory.sequences memory.batch memory.kv_type \
        memory.kv_type_k memory.kv_type_v memory.logits_rows memory.staging memory.host_limit memory.device_limit memory.driver_reserve \
        memory.on_oom memory.experts memory.expert_slots memory.expert_window memory.strict transfer.mode transfer.verify cpu.threads cpu.tier cpu.numa $sampling \
        speculation.mode speculation.tokens speculation.model speculation.device cache.dir cache.kv_dir cache.kv_bytes chat.template \
        server.host server.port server.api_key_file server.open server.hosts server.image_hosts server.cors server.max_connections \
        server.max_body server.max_queue server.memory server.request_timeout server.default_max_tokens server.max_tokens server.unknown_fields server.alias server.strict_model server.reasoning_budget server.reasoning_message \
        server.on_fault server.log_requests server.prefix_cache server.page server.checkpoints server.grammars server.grammar_bytes server.json_whitespace log.level log.format log.file; do
        printed "^$key  \(.*\)  default "
        n=$((n + 1))
    done
    expect 0 "$stator" help config --json
    [ "$(grep -c '"key":' "$tmp/out")" = $n ] || fail "the JSON has $(grep -c '"key":' "$tmp/out") keys, not $n"
}

test_example() {
    expect 0 "$stator" config configs/example.cfg
    printed 'context = 8192; +# .*example\.cfg:[0-9]+$'
    for f in configs/*.cfg; do expect 0 "$stator" config "$f"; done
}

run_tests
