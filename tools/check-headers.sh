#!/bin/bash
# Compiles each public header alone, in C11 and in C++11 (those for C++ in C++11 and later), with warnings as errors. Each is included twice, to test its
# include guard. Checks that every struct that can grow (one with a size) has a LEAT_..._INIT, and compiles each of these
# in both languages. Then compiles each pair of the headers with CUDA's names, in both orders, because programs include
# the runtime's and the driver's in one file.
# Arguments: a C compiler and a C++ compiler (default: cc and c++). CUDA_HOME is the folder of CUDA, if it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
cc=${1:-cc}
cxx=${2:-c++}
cuda=${CUDA_HOME:-/usr/local/cuda}
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
done=0 wrong=0 skipped=0

for path in include/leat/*.h include/leat/*/*.h include/leat/*/*/*.h; do
    [ -e "$path" ] || continue
    header=${path#include/}
    system=
    # The interop headers need the vendor's SDK.
    if [ "$header" = leat/interop/cuda.h ]; then
        [ ! -e "$cuda/include/cuda.h" ] || system="-isystem $cuda/include"
        # shellcheck disable=SC2086
        if ! echo '#include <cuda.h>' | $cc $system -fsyntax-only -x c - 2>/dev/null; then
            echo "headers: $header skipped: no cuda.h here"
            skipped=$((skipped + 1))
            continue
        fi
    fi
    for language in c c++; do
        compiler="$cxx -std=c++11"
        [ "$language" = c++ ] || compiler="$cc -std=c11 -Wstrict-prototypes"
        done=$((done + 1))
        # shellcheck disable=SC2086
        printf '#include <%s>\n#include <%s>\ntypedef int leat_not_empty;\n' "$header" "$header" |
            $compiler $warn -Iinclude $system -fsyntax-only -x "$language" - || {
            echo "headers: $header does not compile alone with $compiler"
            wrong=$((wrong + 1))
        }
        # Stable calls do not need what LEAT_NO_EXPERIMENTAL leaves out.
        grep -q LEAT_NO_EXPERIMENTAL "$path" || continue
        # shellcheck disable=SC2086
        printf '#include <%s>\ntypedef int leat_not_empty;\n' "$header" |
            $compiler $warn -DLEAT_NO_EXPERIMENTAL -Iinclude $system -fsyntax-only -x "$language" - && continue
        echo "headers: $header does not compile with LEAT_NO_EXPERIMENTAL and $compiler"
        wrong=$((wrong + 1))
    done
done

# Headers for C++ alone, in the oldest standard and in those that add to them.
for path in include/leat/*/*.hpp; do
    for standard in 11 17 20; do
        done=$((done + 1))
        # shellcheck disable=SC2086
        printf '#include <%s>\n#include <%s>\n' "${path#include/}" "${path#include/}" |
            $cxx -std=c++$standard $warn -Iinclude -fsyntax-only -x c++ - && continue
        echo "headers: ${path#include/} does not compile alone with $cxx -std=c++$standard"
        wrong=$((wrong + 1))
    done
done

# Every struct whose first field is size has an initialiser.
grown=$(sed -n 's/^typedef struct \(leat_[a-z0-9_]*\) {$/\1/p; s/^    size_t size;.*/size/p' include/leat/*.h |
        sed -n '/^leat/h; /^size$/{ x; p; }' | sort)
initialised=$(sed -n 's/^#define LEAT_[A-Z0-9_]*_INIT LEAT_SIZED_INIT_(\(leat_[a-z0-9_]*\))$/\1/p' include/leat/*.h | sort)
if [ -z "$grown" ] || [ "$grown" != "$initialised" ]; then
    echo "headers: structs with a size and structs with a LEAT_..._INIT differ:"
    diff <(echo "$grown") <(echo "$initialised") || :
    wrong=$((wrong + 1))
fi
for language in c c++; do
    compiler="$cxx -std=c++11"
    [ "$language" = c++ ] || compiler="$cc -std=c11 -Wstrict-prototypes"
    done=$((done + 1))
    # shellcheck disable=SC2086
    {
        printf '#include <%s>\n' leat/leat.h leat/link.h leat/model.h
        for type in $grown; do
            printf 'size_t use_%s(void);\nsize_t use_%s(void)\n{\n    %s made = %s_INIT;\n\n    return made.size;\n}\n' \
                "$type" "$type" "$type" "${type^^}"
        done
    } | $compiler $warn -Iinclude -fsyntax-only -x "$language" - && continue
    echo "headers: the initialisers do not compile with $compiler"
    wrong=$((wrong + 1))
done

# Only calls that end something, and two that cannot fail, may leave out LEAT_NODISCARD.
ending='abandon|close|destroy|free|release|unload|unmap|unregister|unreserve|unwrap|unexpose|cancel|error_set|thread_set_tag'
marked=$(grep -hE '^LEAT_API leat_status ' include/leat/*.h | grep -vE "^LEAT_API leat_status leat_([a-z0-9_]+_)?($ending)\\(" || :)
if [ -n "$marked" ]; then
    echo "headers: without LEAT_NODISCARD:"
    echo "$marked"
    wrong=$((wrong + 1))
fi

# A compiler warns about a status that is ignored, but not about one that is cast to void, nor about those of calls that
# end something.
ignore() { # language statement: compiles the statement
    local compiler="$cxx -std=c++11"
    [ "$1" = c++ ] || compiler="$cc -std=c11 -Wstrict-prototypes"
    # shellcheck disable=SC2086
    printf '#include <leat/leat.h>\nvoid use(leat_stream *stream);\nvoid use(leat_stream *stream)\n{\n    %s;\n}\n' "$2" |
        $compiler $warn -Iinclude -c -o /dev/null -x "$1" -
}
for language in c c++; do
    done=$((done + 1))
    if ! ignore $language '(void)leat_stream_query(stream); leat_free(stream, (void *)stream)' ||
       ignore $language 'leat_stream_query(stream)' 2>/dev/null; then
        echo "headers: LEAT_NODISCARD does not work in $language with $cc and $cxx"
        wrong=$((wrong + 1))
    fi
done

# Compiles two headers together: as C11, the oldest supported standard, or as C++14, which kernels in cuda_runtime.h need.
try_pair() { # first second language
    local compiler="$cxx -std=c++14"
    [ "$3" = c++ ] || compiler="$cc -std=c11 -Wstrict-prototypes"
    # shellcheck disable=SC2086
    printf '#include <%s>\n#include <%s>\n#include <%s>\ntypedef int leat_not_empty;\n' "$1" "$2" "$1" |
        $compiler $warn -Iinclude -Iinclude/leat/compat -fsyntax-only -x "$3" - && return
    echo "headers: $1 and then $2 do not compile together with $compiler"
    return 1
}
export -f try_pair
export cc cxx warn
names=$(cd include/leat/compat && ls ./*.h | sed 's|^\./||')
pairs=$(for first in $names; do
    for second in $names; do
        [ "$first" = "$second" ] || printf '%s\n' "$first $second c" "$first $second c++"
    done
done)
echo "$pairs" | xargs -P "$(nproc)" -L 1 bash -c 'try_pair "$@"' pair || wrong=$((wrong + 1))
done=$((done + $(echo "$pairs" | wc -l)))
echo "headers: $done compiled with $cc and $cxx, $wrong wrong, $skipped skipped"
[ "$done" -gt 0 ] && [ "$wrong" -eq 0 ]
