# Cuts some kernels out of the assembly text of many, with all that belongs to none:
#
#     awk -v kernels="NAME NAME ..." -v registers="NAME NUMBER NAME NUMBER ..."
#
# Of PTX, kernels with a number get so many registers at most.
#
# clang's PTX and AMDGPU texts mark where a function begins and ends. What is between two functions are comments
# and names of sections; AMD's text ends with a list of the kernels in YAML, whose items are kept likewise.
BEGIN {
    count = split(kernels, list, " ")
    for (i = 1; i <= count; i++)
        wanted[list[i]] = 1
    count = split(registers, list, " ")
    for (i = 1; i < count; i += 2)
        most[list[i]] = list[i + 1]
}
/-- Begin function / {
    if (!begun++)
        printf "%s", outside
    outside = ""
    inside = 1
    name = $NF
    keep = name in wanted
}
inside {
    if (keep && $0 == "{" && name in most) { # the first one: those within a function are of its calls
        print ".maxnreg " most[name]
        delete most[name]
    }
    if (keep)
        print
    if (/-- End function/) {
        inside = 0
        ended = 1
    }
    next
}
ended { # in PTX before its bracket
    ended = 0
    if ($0 == "}") {
        if (keep)
            print
        next
    }
}
/ has been demoted$/ { next }
/\.amdgpu_metadata$/ && !metadata++ {
    printf "%s", outside
    outside = ""
}
!metadata {
    outside = outside $0 "\n"
    next
}
item != "" && /^    / {
    item = item $0 "\n"
    keep = keep || ($1 == ".name:" && $2 in wanted)
    next
}
item != "" {
    if (keep)
        printf "%s", item
    item = ""
}
/^  - \./ {
    item = $0 "\n"
    keep = 0
    next
}
{ print }
END { printf "%s", outside }
