#!/bin/bash
# check-layer-symbols.sh OBJECT...: reads the symbols of the library's object files, and prints each reference to a
# symbol of a layer above. check-layers.sh does not notice an "extern" in a source file, or a header that declares a
# symbol of another layer. Also finds cycles between layers, even if the table below allows each reference of them.
set -euo pipefail

if [ $# -eq 0 ]; then
    echo "check-layer-symbols: no object files" >&2
    exit 1
fi

nm -A -P "$@" | awk '
BEGIN {
    # The layers to which each layer may refer, besides itself. Each driver is a layer, and so is the registry.
    below["base"] = ""
    below["kernels"] = ""
    below["layout"] = "base kernels"
    below["driver/cpu"] = below["driver/cuda"] = below["driver/hip"] = "base kernels"
    below["driver/fault"] = "base"
    below["driver"] = "base driver/cpu driver/cuda driver/hip driver/fault"
    below["trace"] = "base"
    below["core"] = "base driver trace"
    below["pool"] = "base core trace"
    below["staging"] = "base"
    below["copy"] = "base core pool layout staging trace"
}

# Prints the layer of an object file: src/driver/cpu/x.o belongs to driver/cpu, src/driver/registry.o to driver.
function layer_of(file) {
    sub(/^.*\/obj\/src\//, "", file)
    sub(/\/[^\/]*$/, "", file)
    return file
}
function source_of(file) {
    sub(/^.*\/obj\//, "", file)
    sub(/\.o$/, ".c", file)
    return file
}

{
    sub(/:$/, "", $1)
    if ($3 ~ /^[ABCDGRSTVW]$/)
        defined_by[$2] = $1
    else if ($3 ~ /^[Uvw]$/) {
        references++
        user[references] = $1
        symbol[references] = $2
    }
}

# Searches depth first. Prints a cycle when it reaches a layer of the current path again.
function visit(layer, way,    other, names, i, count) {
    state[layer] = 1
    count = split(uses[layer], names, " ")
    for (i = 1; i <= count; i++) {
        other = names[i]
        if (state[other] == 1) {
            print "layers in a cycle: " way " " layer " " other
            wrong++
        } else if (!state[other])
            visit(other, way " " layer)
    }
    state[layer] = 2
}

END {
    for (i = 1; i <= references; i++) {
        if (!(symbol[i] in defined_by))
            continue
        from = layer_of(user[i])
        to = layer_of(defined_by[symbol[i]])
        if (from == to)
            continue
        checked++
        if (!(from in below)) {
            print source_of(user[i]) ": its layer is not in the table of tools/check-layer-symbols.sh"
            wrong++
        } else if (index(" " below[from] " ", " " to " ") == 0) {
            print source_of(user[i]) " refers to " symbol[i] " of " source_of(defined_by[symbol[i]]) \
                  ", which does not belong to a layer below"
            wrong++
        }
        if (!((from, to) in edge)) {
            edge[from, to] = 1
            uses[from] = uses[from] " " to
        }
    }
    for (layer in uses)
        if (!state[layer])
            visit(layer, "")
    if (!checked) {
        print "check-layer-symbols: no reference from one layer to another; are these the right objects?"
        wrong++
    }
    print "layers: " checked + 0 " references between layers, " wrong + 0 " wrong"
    exit wrong > 0
}'
