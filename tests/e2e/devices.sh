# stator devices: without a GPU.
. tests/lib.sh

test_no_gpu() {
    expect 0 "$stator" devices
    printed '^cpu:0  kernels for '
    said '^no GPU: '
    expect 0 "$stator" devices --json --probe
    printed '"name": "cpu:0"'
    printed '"no_gpus": "..'
}

test_save() {
    expect 0 "$stator" devices --save "$tmp/box.cfg"
    grep -q '^    use = "cpu:0";$' "$tmp/box.cfg" && grep -qE '^    facts = "cpu:0=[0-9]+";$' "$tmp/box.cfg" || fail "$(cat "$tmp/box.cfg")"
    expect 0 "$stator" plan configs/demo.gguf --set devices.use=cpu:0 --json
    grep '"hash"' "$tmp/out" >"$tmp/here"
    expect 0 "$stator" plan "$tmp/box.cfg" --set model.path=configs/demo.gguf --json
    grep '"hash"' "$tmp/out" | cmp - "$tmp/here" || fail "another plan"
    # A machine with less memory.
    sed -i 's/cpu:0=[0-9]*/cpu:0=8MiB/' "$tmp/box.cfg"
    expect 3 "$stator" plan "$tmp/box.cfg" --set model.path=configs/demo.gguf
    expect 0 "$stator" run "$tmp/box.cfg" --set model.path=configs/demo.gguf --tokens "1 2 3" -n 1
    local wrong
    for wrong in 'gpu0' 'gpu0=1' 'gpu0=1GiB;;gpu1=1GiB' 'gpu0=1GiB; gpu0=2GiB' 'cpu=1GiB;cpu:0=1GiB' 'gpu0=1GiB,colour=red'; do
        expect 2 "$stator" plan configs/demo.cfg --set "devices.facts=$wrong"
        said 'devices.facts: '
        expect 2 "$stator" run configs/demo.cfg --set "devices.facts=$wrong" -p x
    done
    expect 0 "$stator" plan configs/demo.cfg --set "devices.facts= gpu0=1GiB ; gpu1=2GiB; " --json
    grep -q '"name": "gpu1"' "$tmp/out" || fail "auto does not take all that is described"
    expect 0 "$stator" devices --save -
    grep -q '^devices = {$' "$tmp/out" || fail "--save - is not on standard output"
    expect 1 "$stator" devices --save "$tmp/no/such/folder"
    said 'no/such/folder.* can.t be written'
}

run_tests
