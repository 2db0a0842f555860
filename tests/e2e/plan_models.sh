# Plans of large models, from headers alone: src/plan/models.md is what tools/plan_models prints, and scratch does not grow
# with the context.
. tests/lib.sh

test_page() {
    need_shared peer/make_gguf.py
    mkdir -p "$tmp/models"
    tools/plan_models --stator "$stator" --shared "$shared" --scratch "$tmp/models" >"$tmp/page" 2>"$tmp/err" || fail "$(cat "$tmp/err")"
    diff src/plan/models.md "$tmp/page" >"$tmp/diff" ||
        fail "tools/plan_models >src/plan/models.md makes it anew: $(head -6 "$tmp/diff")"
    local shape device tokens scratch
    for shape in qwen3.6-35b-a3b qwen3.6-27b; do
        for device in 'cpu:0=64GiB' 'gpu0=48GiB'; do
            for tokens in 4096 262144; do
                expect 0 "$stator" plan "$tmp/models/$shape.gguf" --device $device --set memory.context=$tokens --set memory.host_limit=128GiB
                sed -n 's/^ *scratch *\([0-9]*\) .*/\1/p' "$tmp/out" >"$tmp/scratch.$tokens"
            done
            [ -s "$tmp/scratch.4096" ] && cmp -s "$tmp/scratch.4096" "$tmp/scratch.262144" ||
                fail "$shape on $device: scratch of 4k $(cat "$tmp/scratch.4096"), of 256k $(cat "$tmp/scratch.262144")"
        done
    done
    rm -r "$tmp/models"
}

# Qwen3.8-Flash-Next with its table of n-grams, which no arena holds.
test_a_table_that_stays_in_its_file() {
    tools/model_headers qwen3.8-flash-next "$tmp/model.gguf" || fail "no header"
    expect 0 "$stator" plan "$tmp/model.gguf" --device gpu0=96GiB --set memory.host_limit=1GiB
    grep -q "^rows of n-grams: the table of 26\.82 GiB stays in the model's file, of which each token reads 16 rows of 90 bytes" "$tmp/out" || fail "$(cat "$tmp/out")"
    expect 0 "$stator" plan "$tmp/model.gguf" --device gpu0=96GiB --set memory.host_limit=1GiB --json
    python3 - "$tmp/out" <<'PY' || fail "the JSON has other numbers"
import json, sys
plan = json.load(open(sys.argv[1]))
rows = sum([n for n in range(20000000, 20001000) if all(n % d for d in range(2, 4473))][:16])
assert plan['in_file'] == {'bytes': (rows + 127) // 128 * 128 * 90, 'rows_per_token': 16, 'row_bytes': 90}, plan['in_file']
assert plan['host']['total'] < 200 << 20
PY
    rm "$tmp/model.gguf"
}

run_tests
