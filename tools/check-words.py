#!/usr/bin/env python3
"""Fails if an identifier or file name contains a word that only this project's authors understand, if a former public
name is used, if two structs of the library have the same tag, or if a message is split over lines of source.
CONTRIBUTING.md lists the words to use instead."""
import os
import re
import sys

# word in an identifier: (prefixes of the paths in which it is forbidden, the word to use instead).
CODE = ('src/', 'include/leat/', 'cli/', 'common/', 'compat/', 'dropin/', 'net/', 'tests/')
OWN = ('src/', 'include/leat/')
# Exceptions: in kernels a lane is a thread of a warp, and the ladder is that of "leat bench layout --ladder".
HOST = ('src/base/', 'src/copy/', 'src/core/', 'src/driver/', 'src/layout/', 'src/pool/', 'src/staging/',
        'include/leat/')
WORDS = {
    'form forms': (('src/', 'cli/bench'), 'canonical layout, timing'),
    'rectangle rectangles': (('src/', 'include/leat/', 'cli/'), '3-D copy, region'),
    'fleet fleets route routes': (CODE, 'rails'),
    'team teams': (CODE, 'workers'),
    'ladder climb climbs': (HOST, 'slow path, fallback'),
    'lane lanes': (HOST, 'magazine'),
    'owner owners': (('src/pool/', 'src/core/blocks'), 'stream cache'),
    'zones': (('src/',), 'red zones'),
    'watched': (OWN, 'checked'),
    'tick ticks': (OWN, 'sequence number'),
    'mark marks': (('src/core/', 'src/pool/', 'src/copy/', 'src/staging/', 'src/driver/'), 'fence'),
    'order': (('src/core/', 'src/pool/', 'src/staging/'), 'timeline'),
    'pair pairs area areas': (('src/copy/', 'src/core/', 'src/staging/', 'include/leat/'),
                              'op, batch, allocation'),
    'many': (OWN + ('cli/',), 'batch'),
    'sentence sentences': (CODE, 'message'),
    'told': (('src/', 'include/leat/', 'cli/', 'compat/'), 'reported'),
    'say says': (('src/', 'include/leat/', 'cli/'), 'print, write'),
    'way ways': (('src/copy/', 'src/pool/', 'src/core/', 'src/staging/', 'src/driver/', 'include/leat/', 'cli/'),
                 'direction, method'),
    'near far': (('src/copy/', 'src/core/', 'src/pool/', 'src/staging/'), 'local, peer'),
    'stores': (('src/', 'include/leat/', 'cli/'), 'store policy'),
    'box boxes': (OWN + ('compat/',), 'region, nd_tile, loop nest'),
    'huge': (('src/base/',), 'hugepage'),
    'lend lends lent': (CODE, 'help while waiting, in_stitch'),
    'catch': (('src/',), 'fault_handler'),
}
ALLOWED = re.compile(r'memory_order_\w+|in_order|put_in_order|'
                     r'(CU|CUDA|HIP|LEAT|LEATC|LEATI_CUDA)_\w*(ORDER|MANY|WORD)\w*|'
                     r'LEATI_FAULT_ORDER_\w+|\w+_red_zones|__\w+')
# Former public names that must not be used any more.
GONE = re.compile(r'leati_(catch|huge|text|links_(close|count)|fleet|route|form|meet|ladder|owner|lane|see|users|'
                  r'watch|stack|pair|area|order|mark|sentence|target|place|value|kernel_own)(_\w+)?$|'
                  r'leat_(known_names|copy_(many|pair|rectangle|box)(_explain)?|alloc_plain|module_own|own_kernel|'
                  r'copy_share_links)$')
# Former names of calls: those that describe end in _get_info, those that count in _get_stats, and so on (leat/leat.h).
GONE_CALLS = set('leat_%s' % name for name in (
    'device_query pointer_query ticket_query managed_query physical_query virtual_query layout_plan_describe '
    'layout_plan_text layout_plan_get layout_plan_free model_load_query model_save_query model_set_tensor model_set_load '
    'pool_query pool_statistics pool_stream_share pool_tag_share managed_count managed_counts ticket_free '
    'model_load_free model_save_free model_set_free module_embedded pool_use pool_use_until pool_export pool_import '
    'pool_tag pool_set_reuse').split())
# Former words in the output of the command, in plans or in snapshots.
STRINGS = {'many': 'batch', 'links': 'rails', 'forms': 'timing', 'box': 'nd-tile', 'lent': 'in_stitch'}
# Words that must not be part of file names.
FILES = set('catch available huge text links fleet route form forms meet ladder lane see life users uses stacks '
            'pairs rectangle order known sentence target words team'.split())
FILES_ALLOWED = {'text.c', 'text.h', 'text_json.c', 'text_json.h', 'replay_target.c',
                 'bench_pool_order.c', 'order_model.c', 'test_pool_order.c',
                 'test_cudart_order.c', 'ordering_forms.h', 'pool_map_text.c',
                 'bench_layout_ladder.c', 'stream_uses.c'}
SPLIT = re.compile(r'(?<!\\n)"[ \t]*\n[ \t]*"')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
KERNELS = re.compile(r'src/kernels/')
BUILT = re.compile(r'src/kernels/built/')
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#[ \t]*include[^\n]*',
                   re.S | re.M)

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
listed = sorted(os.path.join(folder, name) for top in ('src', 'include', 'cli', 'common', 'compat', 'files', 'net', 'examples', 'tests')
                for folder, _, names in os.walk(top) for name in names)
rules = {word: rule for words, rule in WORDS.items() for word in words.split()}
wrong, tags = 0, {}


def complain(path, line, text):
    global wrong
    wrong += 1
    print('%s:%d: %s' % (path, line, text))


for path in listed:
    if not os.path.isfile(path) or BUILT.search(path):
        continue
    for part in re.split(r'[._/-]', os.path.splitext(os.path.basename(path))[0]):
        if part in FILES and os.path.basename(path) not in FILES_ALLOWED:
            complain(path, 1, "'%s' in the name of a file" % part)
    if not path.endswith(('.c', '.h')):
        continue
    with open(path, encoding='utf-8', errors='replace') as file:
        text = file.read()
    code = TOKEN.sub(lambda m: '\n' * m.group(0).count('\n'), text)
    if path.startswith(('src/', 'cli/')):
        for match in TOKEN.finditer(text):
            word = match.group(0).strip('"')
            if match.group(0).startswith('"') and word in STRINGS:
                complain(path, text.count('\n', 0, match.start()) + 1, '"%s": use "%s"' % (word, STRINGS[word]))
    found = {}
    for match in re.finditer(r'\b[A-Za-z_]\w*\b', code):
        found.setdefault(match.group(0), match.start())
    for name, at in found.items():
        line = code.count('\n', 0, at) + 1
        if GONE.match(name) or name in GONE_CALLS:
            complain(path, line, "'%s' was renamed" % name)
        elif not path.startswith('include/leat/compat/') and not ALLOWED.fullmatch(name):
            for part in name.lower().split('_'):
                if part in rules and path.startswith(rules[part][0]):
                    complain(path, line, "'%s' in '%s': use %s" % (part, name, rules[part][1]))
    # A text of several lines may have a literal for each, and an option's text is a paragraph.
    if path.startswith(('src/', 'common/', 'compat/', 'files/', 'net/')) and path != 'src/base/options.h' and not KERNELS.match(path):
        for match in SPLIT.finditer(COMMENT.sub(lambda m: '\n' * m.group(0).count('\n'), text)):
            complain(path, text.count('\n', 0, match.start()) + 1, 'a message is split over lines')
    if path.startswith('src/'):
        for match in re.finditer(r'^(?:typedef )?(?:struct|union|enum) (\w+)\s*\{', code, re.M):
            other = tags.setdefault(match.group(1), path)
            if other != path:
                complain(path, code.count('\n', 0, match.start()) + 1,
                         "struct tag '%s' is in %s too" % (match.group(1), other))
print('check-words: %d files, %d wrong' % (len(listed), wrong), file=sys.stderr if wrong else sys.stdout)
sys.exit(wrong > 0)
