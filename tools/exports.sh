#!/bin/bash
# Lists the calls that public headers declare (LEAT_API), one a line: "leat_copy stable" or "leat_file_open
# experimental". A call is experimental if the headers do not declare it with LEAT_NO_EXPERIMENTAL defined.
#     tools/exports.sh CC HEADER...              the list
#     tools/exports.sh --source CC HEADER...     the headers after the preprocessor, with LEAT_API as a word
#     tools/exports.sh --map CC HEADER...        the experimental ones as a node of a linker version script
# Headers are relative to include/ (leat/copy.h), or to the folder in INCLUDE. Calls of other headers that these include
# are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
include=${INCLUDE:-include}
as=--list
case $1 in --*) as=$1; shift ;; esac
cc=$1
shift

# Prints what the compiler sees of the headers.
preprocessed() { # option of the preprocessor...
    printf '#include <%s>\n' "${headers[@]}" | $cc -std=c11 -I"$include" -DLEAT_API=LEAT_API "$@" -E -x c -
}

# Prints the names of the calls in preprocessed text: of what follows LEAT_API, the name before the first bracket that
# begins with leat_. Lines "# 1 "include/leat/copy.h"" say which file the following lines are from.
names() {
    awk -v include="$include" -v headers="${headers[*]}" '
        BEGIN { count = split(headers, list, " "); for (i = 1; i <= count; i++) wanted[include "/" list[i]] = 1 }
        /^# [0-9]+ "/ { split($0, part, "\""); inside = part[2] in wanted; next }
        inside { text = text " " $0 }
        END {
            while (match(text, /(^|[^A-Za-z0-9_])LEAT_API[^A-Za-z0-9_]/)) {
                text = substr(text, RSTART + RLENGTH)
                if (match(text, /leat_[a-z0-9_]+ *\(/))
                    print substr(text, RSTART, RLENGTH)
            }
        }' | tr -d ' (' | sort -u
}

headers=("$@")
if [ "$as" = --source ]; then
    preprocessed -P
    exit
fi
all=$(preprocessed | names)
stable=$(preprocessed -DLEAT_NO_EXPERIMENTAL | names)
experimental=$(comm -23 <(echo "$all") <(echo "$stable"))
if [ "$as" = --map ]; then
    # shellcheck disable=SC2086
    [ -z "$experimental" ] || { echo 'LEAT_EXPERIMENTAL {'; echo '    global:'; printf '        %s;\n' $experimental; echo '};'; }
    exit
fi
while read -r name; do
    case $'\n'$experimental$'\n' in *$'\n'"$name"$'\n'*) echo "$name experimental" ;; *) echo "$name stable" ;; esac
done <<<"$all"
