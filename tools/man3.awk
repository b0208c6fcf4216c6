# man3.awk - manual pages of section 3 from a public header: a page for each function, with the comment above it, and
# one for the header, with the comment that opens it.
#
#     awk -v header=leat/copy.h -v out=FOLDER -v version=0.1.0 -f tools/man3.awk include/leat/copy.h
#
# A function without a comment that directly follows another one gets the comment of that one. Lines that are indented
# by four blanks or more are not reflowed. The text after "Errors: " becomes a section.

# Escapes what troff would read as an escape or a request.
function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\\&" text
    return text
}

# Returns a line of a comment without its stars.
function stripped(line) {
    sub(/^\/\*+ ?/, "", line)
    sub(/ *\*\/ *$/, "", line)
    sub(/^ \*( |$)/, "", line)
    sub(/ +$/, "", line)
    return line
}

# Returns the first sentence of a text without its full stop, cut to 100 characters.
function first_sentence(text, at) {
    gsub(/\n/, " ", text)
    gsub(/  +/, " ", text)
    sub(/^ /, "", text)
    if (match(text, /[.:;]( |$)/))
        text = substr(text, 1, RSTART - 1)
    if (length(text) > 100) {
        text = substr(text, 1, 100)
        sub(/ [^ ]*$/, " ...", text)
    }
    return text
}

function write_text(page, text, lines, count, i, kept, line) {
    count = split(text, lines, "\n")
    kept = 0
    for (i = 1; i <= count; i++) {
        line = lines[i]
        if (match(line, /(^|[.;:)] )Errors: /) && !errors_begun) {
            if (RSTART > 1 || line !~ /^Errors/) {
                if (kept) { print ".fi" > page; kept = 0 }
                print escaped(substr(line, 1, RSTART)) > page
            }
            if (kept) { print ".fi" > page; kept = 0 }
            print ".SH ERRORS" > page
            line = substr(line, index(line, "Errors: ") + 8)
            errors_begun = 1
        }
        if (line ~ /^    /) {
            if (!kept) print ".PP\n.nf" > page
            kept = 1
            print escaped(line) > page
        } else if (line ~ /^ *$/) {
            if (kept) print ".fi" > page
            kept = 0
            if (i < count && !(lines[i + 1] ~ /^    /)) print ".PP" > page
        } else {
            if (kept) print ".fi\n.PP" > page
            kept = 0
            sub(/^ +/, "", line)
            print escaped(line) > page
        }
    }
    if (kept) print ".fi" > page
}

function begin_page(page, title, text) {
    printf ".\\\" Made from <%s> by tools/man3.awk.\n", header > page
    printf ".TH \"%s\" 3 \"\" \"leat %s\" \"Library functions\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", title, version,
        escaped(title), escaped(text) > page
    printf ".nf\n.B #include <%s>\n", escaped(header) > page
}

# Writes a prototype in bold, with the line breaks of the header.
function write_prototype(page, prototype, lines, count, i) {
    count = split(prototype, lines, "\n")
    print ".PP" > page
    for (i = 1; i <= count; i++) {
        gsub(/"/, "\\(dq", lines[i])
        printf ".B \"%s\"\n", escaped(lines[i]) > page
    }
}

function write_function(prototype, text, name, page, flat) {
    flat = prototype
    gsub(/\n/, " ", flat)
    if (!match(flat, /leat_[a-z0-9_]+ *\(/))
        return
    name = substr(flat, RSTART, RLENGTH)
    sub(/ *\($/, "", name)
    page = out "/" name ".3"
    begin_page(page, name, first_sentence(text) == "" ? "function of leat" : first_sentence(text))
    write_prototype(page, prototype)
    print ".fi\n.SH DESCRIPTION" > page
    if (experimental)
        print "Experimental: this call may still change; see\n.BR leat\\-version.h (3).\n.PP" > page
    errors_begun = 0
    write_text(page, text == "" ? "See the header." : text)
    printf ".SH SEE ALSO\n.BR %s (3),\n.BR leat_last_error (3),\n.BR leat (1)\n", escaped(page_of_header) > page
    close(page)
    prototypes[++prototype_count] = prototype
}

BEGIN {
    page_of_header = header
    gsub("/", "-", page_of_header)
}

/^#ifndef LEAT_NO_EXPERIMENTAL/ { experimental = 1 }
/^#endif \/\* LEAT_NO_EXPERIMENTAL/ { experimental = 0 }

# Only comments that begin a line are documentation.
!in_comment && /^\/\*/ {
    in_comment = 1
    comment = ""
}
in_comment {
    comment = comment (comment == "" ? "" : "\n") stripped($0)
    if ($0 ~ /\*\//) {
        in_comment = 0
        fresh = 1
        if (!opened) {
            opened = 1
            opening = comment
            comment = ""
            fresh = 0
        }
    }
    next
}

/^LEAT_(NODISCARD|API)/ {
    in_prototype = 1
    prototype = ""
    inside_of_group = fresh || after_prototype
}
in_prototype {
    line = $0
    if (prototype == "") {
        while (sub(/^LEAT_[A-Z_]+(\([^()]*\))? +/, "", line))
            ;
        left_out = length($0) - length(line)
    } else {
        match(line, /^ */) # stays below the first parameter
        line = substr(line, (RLENGTH < left_out ? RLENGTH : left_out) + 1)
    }
    prototype = prototype (prototype == "" ? "" : "\n") line
    if (line ~ /;[ \t]*(\/\*.*)?$/) {
        in_prototype = 0
        sub(/;[ \t]*\/\*.*$/, ";", prototype)
        write_function(prototype, inside_of_group ? comment : "")
        fresh = 0
        after_prototype = 1
    }
    next
}
{
    fresh = 0
    after_prototype = 0
}

END {
    page = out "/" page_of_header ".3"
    sub(/^ *leat\/[a-z_]+\.h - /, "", opening)
    sub(/^\n/, "", opening)
    sub(/^ *leat\/[a-z_]+\.h - /, "", opening)
    begin_page(page, page_of_header, first_sentence(opening))
    for (i = 1; i <= prototype_count; i++)
        write_prototype(page, prototypes[i])
    print ".fi\n.SH DESCRIPTION" > page
    errors_begun = 1
    write_text(page, opening)
    print ".SH SEE ALSO\n.BR leat (1)" > page
}
