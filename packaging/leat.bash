# Completion for bash: the commands, their options and groups, as the command's own help has them.
_leat() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-} i

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(leat help 2>/dev/null |
            sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p') --help --version" -- "$word")
        return
    fi
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --device)
        # A device has a colon, at which bash splits words.
        mapfile -t COMPREPLY < <(compgen -W "$(leat info --json 2>/dev/null |
            sed -n 's/^ *"name": "\([a-z]*:[0-9]*\)".*/\1/p')" -- "$word")
        return
        ;;
    esac
    if [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "info bench explain layout replay plan pool-map cu" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(leat help "$command" 2>/dev/null | grep -o -e '--[a-z][a-z-]*' |
            sort -u)" -- "$word")
    elif [ "$command" = bench ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(leat bench --list 2>/dev/null | sed 's/ .*//')" -- "$word")
    elif [ "$command" = explain ]; then
        for i in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do [ "$i" != copy ] || command=; done
        [ -z "$command" ] || mapfile -t COMPREPLY < <(compgen -W copy -- "$word")
    fi
}
complete -o default -F _leat leat
