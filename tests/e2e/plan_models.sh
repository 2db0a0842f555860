# Plans of four large models, from headers alone: src/plan/models.md is what tools/plan_models prints, and scratch does not grow
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

run_tests
