# make install and uninstall: where things go, that nothing else is left, and that a program can be built against them.
. tests/lib.sh

install_to() { expect 0 env -u MAKEFLAGS make -s BUILD="$BUILD" install DESTDIR="$tmp/root" "$@"; }
files() { (cd "$tmp/root" && find . -type f | sort); }

test_install_honours_prefix_and_destdir() {
    local p word
    for word in prefix PREFIX; do
        p=/opt/some
        install_to $word=$p
        printf ".$p/%s\n" bin/stator etc/stator/example.cfg include/stator.h lib/libstator.a lib/pkgconfig/stator.pc \
            lib/systemd/system/stator.service share/man/man1/stator.1 >"$tmp/expected"
        files | cmp - "$tmp/expected" || fail "installed: $(files | tr '\n' ' ')"
        expect 0 "$tmp/root$p/bin/stator" version
        grep -q '^\.TH STATOR 1' "$tmp/root$p/share/man/man1/stator.1" || fail "no manual page"
        touch "$tmp/root$p/lib/of-others"
        expect 0 env -u MAKEFLAGS make -s BUILD="$BUILD" uninstall DESTDIR="$tmp/root" $word=$p
        [ "$(files)" = ".$p/lib/of-others" ] || fail "left: $(files | tr '\n' ' ')"
        rm -rf "$tmp/root"
    done
    install_to prefix=/usr sysconfdir=/etc
    [ -f "$tmp/root/etc/stator/example.cfg" ] || fail "sysconfdir is not honoured"
    grep -qx 'ExecStart=/usr/bin/stator serve /etc/stator/box.cfg' "$tmp/root/usr/lib/systemd/system/stator.service" ||
        fail "the unit starts something else"
}

test_the_default_is_usr_local() {
    install_to
    files | grep -qx './usr/local/bin/stator' || fail "installed: $(files | tr '\n' ' ')"
}

test_example_config_is_valid() {
    install_to prefix=/
    expect 0 "$tmp/root/bin/stator" config "$tmp/root/etc/stator/example.cfg"
}

# With no more than what stator.pc says.
test_a_program_against_the_library() {
    sanitized && return
    install_to prefix=/p
    local pc=$tmp/root/p/lib/pkgconfig/stator.pc flags
    flags=$(sed -n 's/^Cflags: //p; s/^Libs: //p' "$pc" | sed "s|\${includedir}|$tmp/root/p/include|; s|\${libdir}|$tmp/root/p/lib|" | tr '\n' ' ')
    cat >"$tmp/p.c" <<'EOF'
#include <stator.h>
#include <stdio.h>
int main(void) { return printf("%d %d\n", STATOR_API_VERSION, stator_api_version()) < 0; }
EOF
    set -- $flags
    # As pkg-config prints them: -I first, then libraries after the source.
    expect 0 cc -std=c11 -Wall -Werror "$1" -o "$tmp/p" "$tmp/p.c" "${@:2}"
    expect 0 "$tmp/p"
    printed '^([0-9]+) \1$'
}

run_tests
