# Completion for bash: the commands, their options and groups, as the command's own help has them, and the names of
# devices after --device.

# Prints the names of the devices. Loading a GPU's driver may take seconds and a completion must not: after one second
# 'leat info' is stopped, and the names are guessed from the GPUs that the kernel lists.
_leat_list_devices() {
    local json gpus=(/proc/driver/nvidia/gpus/*) i

    if json=$(timeout -s KILL 1 leat info --json 2>/dev/null </dev/null); then
        sed -n 's/^ *"name": "\([a-z]*:[0-9]*\)".*/\1/p' <<<"$json"
        return
    fi
    if [ -e "${gpus[0]}" ]; then
        for i in "${!gpus[@]}"; do echo "cuda:$i"; done
    fi
    printf '%s\n' cpu:0 cpu:1
}

# Completes the name of a device. One shell asks for the names once, and again when a variable that selects devices
# has changed.
_leat_device() {
    local word=$1 part key
    key="$LEAT_DRIVERS|$LEAT_CPU_DEVICES|$CUDA_VISIBLE_DEVICES|$HIP_VISIBLE_DEVICES|$ROCR_VISIBLE_DEVICES"

    if [ "${_leat_devices_key-}" != "$key" ]; then
        _leat_devices=$(_leat_list_devices 2>/dev/null)
        _leat_devices_key=$key
    fi
    mapfile -t COMPREPLY < <(compgen -W "$_leat_devices" -- "$word")
    # Where the colon separates words, readline replaces only the part behind it.
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        part=${word%"${word##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$part"}")
    fi
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt +o default 2>/dev/null # file names are no devices
}

_leat_commands() {
    leat help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p'
}

_leat() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-} i
    # The words as blanks separate them: in COMP_WORDS "--device=cuda:0" is five.
    local line=${COMP_LINE:0:COMP_POINT} current before

    COMPREPLY=()
    current=${line##*[[:space:]]}
    before=${line%"$current"}
    before=${before%"${before##*[![:space:]]}"}
    before=${before##*[[:space:]]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_leat_commands) --help --version" -- "$word")
    elif [ "$before" = --device ]; then
        _leat_device "$current"
    elif [[ $current == --device=* ]]; then
        _leat_device "${current#--device=}"
    elif [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_leat_commands)" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(leat help "$command" 2>/dev/null | grep -o -e '--[a-z][a-z-]*' |
            sort -u)" -- "$word")
    elif [ "$command" = bench ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(leat bench --list 2>/dev/null | sed 's/ .*//')" -- "$word")
    elif [ "$command" = explain ]; then
        for i in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do [[ $i != copy && $i != file ]] || command=; done
        [ -z "$command" ] || mapfile -t COMPREPLY < <(compgen -W 'copy file' -- "$word")
    fi
}
complete -o default -F _leat leat
