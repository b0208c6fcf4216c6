# Prints some kernels of an assembly text with many, and the lines that belong to no kernel:
#
#     awk -v kernels="NAME NAME ..." -v registers="NAME NUMBER NAME NUMBER ..."
#
# In PTX, registers limits the registers of these kernels to these numbers.
#
# clang marks the begin and the end of functions in PTX and AMDGPU texts. Between two functions there are only comments
# and section names. AMD's text ends with a list of the kernels in YAML, of which the same kernels are printed.
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
    if (keep && $0 == "{" && name in most) { # only the first bracket begins the body; later ones belong to calls
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
ended { # in PTX this mark comes before the closing bracket
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
