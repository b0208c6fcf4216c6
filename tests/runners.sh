#!/bin/sh
# runners.sh: tests run.sh, limited.sh, suites.sh, skipped.sh and gate.sh with small programs that it writes, and
# the libraries to preload.
cd "${0%/*}" || exit 1
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests"
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAIL  %s\n' "$*"
    sed 's/^/      | /' "$work/out"
}

# program NAME: makes a program of the shell commands on standard input.
program() {
    { echo '#!/bin/sh'; cat; } >"$work/tests/$1"
    chmod +x "$work/tests/$1"
}

# says PATTERN: a whole line of the output must match.
says() { grep -qxE -- "$1" "$work/out" || fail "no line is like: $1"; }

program passes <<'END'
echo 'all is well'
END
program leaves_out <<'END'
echo '           skipped: needs two devices'
echo '[  SKIPPED ] one'
echo '           skipped: needs two devices'
echo '[  SKIPPED ] two'
echo '[  SKIPPED ] 2 test(s), listed below:'
echo '[  SKIPPED ] one'
echo '[  SKIPPED ] two'
END
program leaves_out_silently <<'END'
echo '[  SKIPPED ] 1 test(s), listed below:'
END
program not_here <<'END'
echo 'some words'
echo 'skipped: there is no such header'
exit 77
END
program not_here_silently <<'END'
exit 77
END
program fails <<'END'
exit 3
END
program hangs <<'END'
echo 'waiting'
exec sleep 300
END
# Runs for ever, with a child that ignores TERM.
program spins <<'END'
(trap '' TERM; while :; do :; done) &
while :; do :; done
END
program looks_around <<'END'
while :; do sleep 0.1; done
END
# Works longer than TEST_STUCK allows a program to be idle.
program works <<'END'
end=$(($(date +%s) + 4))
while [ "$(date +%s)" -lt $end ]; do :; done
END
# LeakSanitizer crashes in the first run only, or in each.
program crashes_once <<'END'
[ -e ran ] || { touch ran; echo '==1==LeakSanitizer has encountered a fatal error.'; exit 1; }
END
program fails_and_crashes <<'END'
[ -e ran2 ] || { touch ran2; printf '[  FAILED  ] x\n==1==LeakSanitizer has encountered a fatal error.\n'; exit 1; }
END
program crashes <<'END'
echo '==1==LeakSanitizer has encountered a fatal error.'
exit 1
END
program dies <<'END'
kill -KILL $$
END

# Unset what a calling make or run.sh has exported.
unset LEAT_REQUIRE TEST_UNDER TEST_RESULTS TEST_SUITE TEST_TIMEOUT TEST_LONGEST TEST_STUCK MAKEFLAGS MFLAGS MAKELEVEL
(
    cd "$work" || exit 1
    all='tests/passes tests/leaves_out tests/leaves_out_silently tests/not_here tests/not_here_silently tests/fails'
    # shellcheck disable=SC2086
    TEST_STUCK=3 "$here/run.sh" "$work" cpu:0 $all tests/hangs tests/works tests/dies tests/crashes_once \
        tests/crashes tests/fails_and_crashes tests/passes
) >"$work/out" 2>&1 && fail 'run.sh is content with programs that fail'
says 'ok    passes'
says 'ok    leaves_out \(2 of its tests skipped\)'
says '        skipped: needs two devices \(2 tests\)'
says 'FAIL  leaves_out_silently: 1 of its tests were skipped, and 0 reasons are given'
says 'skip  not_here: there is no such header'
says 'FAIL  not_here_silently: exit status 77, and its last line is not "skipped: REASON"'
says 'FAIL  fails: exit status 3'
says 'waiting'
says 'FAIL  hangs: stuck: no processor time to speak of in 3 s'
says 'ok    works'
says 'FAIL  dies: exit status 137'
says 'note: LeakSanitizer crashed at the end of crashes_once, which runs once more'
says 'ok    crashes_once'
says 'FAIL  crashes: exit status 1'
says 'FAIL  fails_and_crashes: exit status 1'
says 'on cpu:0: 5 passed, 7 failed, 1 skipped; 2 tests left out inside programs'

(cd "$work" && "$here/run.sh" "$work" cpu:0 tests/not_here tests/not_here) >>"$work/out" 2>&1 ||
    fail 'run.sh fails where everything is skipped'
says 'note: nothing ran on cpu:0: all 2 programs were skipped'
mv "$work/out" "$work/log"
./skipped.sh "$work/log" >"$work/out" 2>&1 || fail 'skipped.sh fails'
says 'skipped: 3 programs, and 2 tests in programs that ran'
says '3 programs  there is no such header'
says '  2 tests  needs two devices'
says 'note: nothing ran on cpu:0: all 2 programs were skipped'
echo 'ok    passes' | ./skipped.sh >"$work/out" 2>&1
[ -s "$work/out" ] && fail 'skipped.sh says something where nothing was skipped'

# The limits TEST_TIMEOUT and TEST_LONGEST.
(
    cd "$work" || exit 1
    TEST_TIMEOUT=1 TEST_STUCK=45 TEST_LONGEST=600 "$here/run.sh" "$work" cpu:0 tests/spins tests/passes
    TEST_LONGEST=2 "$here/run.sh" "$work" cpu:0 tests/looks_around tests/passes
) >"$work/out" 2>&1
says 'FAIL  spins: more than 1 s of processor time'
says 'FAIL  looks_around: still running after 2 s'
[ "$(grep -cx 'on cpu:0: 1 passed, 1 failed, 0 skipped; 0 tests left out inside programs' "$work/out")" -eq 2 ] ||
    fail 'what follows a program that was ended does not run, or is not counted'

# All suites run even if some fail, and the last lines sum up all of them.
cat >"$work/Makefile" <<END
check-%: export TEST_SUITE = \$@
suite-%: % ; @echo 'end \$*' >>"\$\$TEST_RESULTS"
check-ends: ; @TEST_STUCK=2 '$here/run.sh' . cpu:0 tests/hangs tests/passes tests/not_here
check-fails: ; @$here/run.sh . cpu:0 tests/fails tests/passes
check-unbuilt: no_such_program ; @$here/run.sh . cpu:0 tests/passes
check-stopped: ; @$here/run.sh . cpu:0 tests/passes; exit 1
check-late: ; @$here/run.sh . cpu:0 tests/passes \$(MORE)
layers: ; @echo 'layers: all is well'
symbols: ; @false
END
suites="check-ends check-fails check-unbuilt check-stopped layers symbols check-late"
# shellcheck disable=SC2086
(cd "$work" && "$here/suites.sh" make MORE='tests/leaves_out tests/passes' -- $suites) >"$work/out" 2>&1 &&
    fail 'suites.sh is content with suites that fail'
cat >"$work/wanted" <<'END'
skipped: 1 program, and 2 tests in programs that ran
1 program  there is no such header
  2 tests  needs two devices
FAIL  check-ends: hangs: stuck: no processor time to speak of in 2 s
FAIL  check-fails: fails: exit status 3
FAIL  check-unbuilt: stopped with an error, see its output above
FAIL  check-stopped: stopped with an error, see its output above
FAIL  symbols: stopped with an error, see its output above
7 passed, 5 failed
END
tail -n "$(wc -l <"$work/wanted")" "$work/out" | diff - "$work/wanted" >"$work/differs" ||
    { cat "$work/differs" >>"$work/out"; fail 'the last lines of suites.sh are others'; }
[ "$(grep -c 'needs two devices' "$work/out")" -eq 1 ] || fail 'a reason is given more than once'
(cd "$work" && "$here/suites.sh" make -- layers check-late) >"$work/out" 2>&1 || fail 'suites.sh fails by itself'
[ "$(tail -n 1 "$work/out")" = '2 passed, 0 failed' ] || fail 'suites.sh counts otherwise'

LEAT_REQUIRE=cuda sh -c 'cd "$1" && exec "$2" "$1" cuda:0 tests/not_here' sh "$work" "$here/run.sh" >"$work/out" 2>&1 &&
    fail 'run.sh takes a skipped program although LEAT_REQUIRE is set'

# With each fault the gate's programs fail by an assertion, and then end in different ways.
assertion='echo "[  ERROR   ] --- [   LINE   ] --- tests/api/a.c:7: error: Failure!"'
exception='echo "[  ERROR   ] --- Test failed with exception: Segmentation fault(11)"'
gate() { (cd "$work" && "$here/gate.sh" tests/test_copy) >"$work/out" 2>&1; }
for death in 'exit 1' 'kill -ABRT $$' 'kill -SEGV $$' 'exit 124'; do
    printf '[ "$LEAT_FAULT" = none ] && exit 0\n%s\n%s\n' "$assertion" "$death" | program test_copy
    gate || fail "gate.sh does not count an assertion before: $death"
    says 'gate: 9 passed, 0 failed'
done
for death in 'exit 1' 'kill -ABRT $$'; do
    printf '[ "$LEAT_FAULT" = none ] && exit 0\n%s\n%s\n' "$exception" "$death" | program test_copy
    gate && fail "gate.sh counts a crash: $death"
    says 'FAIL  copy-short is noticed by nobody'
done
echo 'exit 1' | program test_copy
gate && fail 'gate.sh takes a program that fails without a fault'

# The loader must find preloaded libraries before the system's own.
leat=${LEAT_COMMAND:-$here/../build/leat}
for pair in jitter:pthread_mutex_lock jitter:mprotect keys:pkey_mprotect keys:sigaction; do
    nm -D --defined-only "${leat%/*}/tests/${pair%:*}.so" >"$work/out" 2>&1
    says "[0-9a-f]+ T ${pair#*:}"
done

[ $failures -eq 0 ] && echo 'runners: all is right'
[ $failures -eq 0 ]
