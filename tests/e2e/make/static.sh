# The fully static binary (make static): the demo in an empty root directory, with nothing but it and the model.
. tests/lib.sh
static=${BUILD:-}/stator-static

# in_root DIRECTORY COMMAND...: as root by chroot, else by a user namespace or sudo.
in_root() {
    if [ "$(id -u)" = 0 ]; then
        chroot "$@"
    elif unshare -r true 2>/dev/null; then
        unshare -r chroot "$@"
    else
        sudo -n chroot "$@"
    fi
}

test_needs_no_library() {
    sanitized && return
    ldd "$static" >"$tmp/ldd" 2>&1
    grep -q 'not a dynamic executable' "$tmp/ldd" || fail "ldd: $(cat "$tmp/ldd")"
    ! nm "$static" | grep -qE ' [tTwW] (lz_|getgrgid$)' || fail "there is something of Level Zero or of NSS in it"
    expect 0 "$static" version
    printed 'level_zero: no kernels \(this program is for the CPU only\)'
}

test_demo_in_an_empty_root() {
    sanitized && return
    local words=(-p "Once upon a time, there was a little fox named Pip." --temp 0 -n 60 --set memory.context=256)
    mkdir "$tmp/root"
    cp "$static" configs/demo.gguf "$tmp/root"
    expect 0 in_root "$tmp/root" /stator-static run demo.gguf "${words[@]}" --set memory.host_limit=1GiB
    cp "$tmp/out" "$tmp/first"
    expect 0 "$stator" run configs/demo.gguf "${words[@]}" --set devices.use=cpu
    [ -s "$tmp/first" ] || fail "no text"
    cmp "$tmp/out" "$tmp/first" || fail "another text than the full binary's"
    # Without /proc the kernel is asked how much memory there is.
    expect 0 in_root "$tmp/root" /stator-static run demo.gguf "${words[@]}"
    cmp "$tmp/out" "$tmp/first" || fail "another text without a limit"
}

run_tests
