#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""suite.py --suite DIR --skips FILE [--limit SECONDS] [--only PATTERN]... -- ARGS...

Run rdma-core's pyverbs tests, unpacked in DIR, with ARGS for its own parser
(--dev, --gid), and report each as TAP.

A test runs in a child: one that hangs in a system call is killed after --limit
seconds, with a traceback of where it was, and leaves nothing to the next one.

Where the suite looks for a link's netdev below a bus device, for the address
that its connections use, it is told it by the link's table of GIDs.

FILE lists what may be skipped, a line each: pattern, class and reason, with
tabs between. A pattern is matched with a test's name
(test_mr.MRTest.test_reg_mr); one that ends in .py is of a module that is not
run at all. A skip that is not in it is a failure, and so is an entry that no
skip needs.
"""
import argparse
import faulthandler
import fnmatch
import importlib
import io
import multiprocessing
import os
import pickle
import select
import signal
import sys
import time
import unittest

CLASSES = ('vendor', 'hardware', 'cuda', 'drm', 'confidential', 'kernel', 'without')


class Allowed:
    """An entry of the list"""
    def __init__(self, place, line):
        fields = line.split('\t')
        if len(fields) != 3 or not all(fields):
            sys.exit(f'{place}: not PATTERN<tab>CLASS<tab>REASON')
        self.pattern, self.kind, self.reason = fields
        self.place = place
        self.used = 0
        if self.kind not in CLASSES:
            sys.exit(f'{place}: {self.kind} is none of {", ".join(CLASSES)}')

    def matches(self, name):
        return fnmatch.fnmatchcase(name, self.pattern)


def read_list(path):
    with open(path, encoding='ascii') as f:
        return [Allowed(f'{os.path.basename(path)}:{n}', line.rstrip('\n'))
                for n, line in enumerate(f, 1) if line.strip() and not line.startswith('#')]


class Tap:
    def __init__(self):
        self.n = 0
        self.failed = 0

    def result(self, good, what):
        self.n += 1
        self.failed += not good
        print(f'{"ok" if good else "not ok"} {self.n} - {what}', flush=True)

    @staticmethod
    def diag(text):
        for line in text.rstrip('\n').split('\n'):
            print(f'#   {line}', flush=True)


def flatten(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flatten(t)
        else:
            yield t


def run_here(test):
    """What became of it: passed, skipped or failed, and why"""
    result = unittest.TestResult()
    result.buffer = True
    test.run(result)
    bad = [trace for _, trace in result.errors + result.failures]
    if result.unexpectedSuccesses:
        bad.append('it was expected to fail')
    if bad:
        return 'failed', '\n'.join(bad)
    if result.skipped:
        return 'skipped', result.skipped[0][1]
    return 'passed', ''


def child(test, pipe, limit):
    os.setpgid(0, 0)
    with os.fdopen(pipe, 'wb') as f:
        faulthandler.dump_traceback_later(limit, file=sys.__stdout__)
        try:
            answer = run_here(test)
        except BaseException as ex:  # what it may raise is not ours to know
            answer = 'failed', repr(ex)
        pickle.dump(answer, f)
    # objects that a failed test left are the kernel's to remove
    os._exit(0)


def run_apart(test, limit):
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(r)
        child(test, w, limit)
    os.close(w)
    data = io.BytesIO()
    end = time.monotonic() + limit + 5
    hung = False
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([r], [], [], left)[0]:
            hung = True
            break
        part = os.read(r, 65536)
        if not part:
            break
        data.write(part)
    os.close(r)
    # its own children as well
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = os.waitpid(pid, 0)[1]
    if hung:
        return 'failed', f'it did not end within {limit} s'
    if not data.getvalue():
        return 'failed', f'it ended without a word (wait status 0x{status:x})'
    return pickle.loads(data.getvalue())


def get_ip_mac(self, dev, port, idx):
    """In the place of RDMATestCase's, which knows netdevs of hardware only: below
    the parent of the device. A link's is in its table of GIDs."""
    try:
        with open(f'/sys/class/infiniband/{dev}/ports/{port}/gid_attrs/ndevs/{idx}',
                  encoding='ascii') as f:
            name = f.read().strip()
        ip, mac = self.get_ip_mac_address(name)
    except (OSError, KeyError, IndexError):
        ip = mac = None
    self.args.append([dev, port, idx, ip, mac])


def load(directory, allowed, tap):
    """The tests, without the modules that the list leaves out"""
    sys.path[:0] = [os.path.dirname(directory), directory]
    # as the suite's own run_tests.py does
    importlib.import_module('args_parser').parser.parse_args()
    names = sorted(n for n in os.listdir(directory) if n.startswith('test_') and n.endswith('.py'))
    tests = []
    left_out = 0
    # tests/__init__.py loads every module, vendors' and all
    package = type(sys)('tests')
    package.__path__ = [directory]
    sys.modules['tests'] = package
    importlib.import_module('tests.base').RDMATestCase._get_ip_mac = get_ip_mac
    for n in names:
        why = next((a for a in allowed if a.pattern.endswith('.py') and a.matches(n)), None)
        if why:
            why.used += 1
            left_out += 1
            tap.result(True, f'{n} # SKIP {why.kind}: {why.reason}')
            continue
        try:
            module = importlib.import_module('tests.' + n[:-3])
        except Exception as ex:
            tap.result(False, f'{n} can be loaded')
            tap.diag(repr(ex))
            continue
        tests += flatten(unittest.defaultTestLoader.loadTestsFromModule(module))
    return tests, left_out


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--suite', required=True)
    p.add_argument('--skips', required=True)
    p.add_argument('--limit', type=float, default=120)
    p.add_argument('--only', action='append')
    p.add_argument('rest', nargs='*')
    args = p.parse_args()

    # what the tests give to their processes can't be pickled, as python 3.14 would
    multiprocessing.set_start_method('fork')
    tap = Tap()
    allowed = read_list(args.skips)
    sys.argv[1:] = args.rest
    tests, modules = load(os.path.abspath(args.suite), allowed, tap)

    count = {'passed': 0, 'failed': 0, 'skipped': 0}
    slow = []
    for test in tests:
        name = test.id()[len('tests.'):]
        if args.only and not any(fnmatch.fnmatchcase(name, o) for o in args.only):
            continue
        start = time.monotonic()
        what, why = run_apart(test, args.limit)
        slow.append((time.monotonic() - start, name))
        count[what] += 1
        if what == 'passed':
            tap.result(True, name)
        elif what == 'failed':
            tap.result(False, name)
            tap.diag(why)
        else:
            entry = next((a for a in allowed if a.matches(name)), None)
            if entry:
                entry.used += 1
                tap.result(True, f'{name} # SKIP {entry.kind}: {why}')
            else:
                tap.result(False, f'{name} is not skipped')
                tap.diag(f'{why} (not in {os.path.basename(args.skips)})')
    if not args.only:
        for a in allowed:
            if not a.used:
                tap.result(False, f'{a.place}: {a.pattern} is skipped')
                tap.diag('it is not, or there is no such test: remove the entry')
        print(f'# slowest: ' + ', '.join(f'{n} {t:.1f} s' for t, n in sorted(slow)[-1:-6:-1]))
    print(f'# {count["passed"]} passed, {count["failed"]} failed, {count["skipped"]} skipped; '
          f'{modules} modules of vendors left out', flush=True)
    print(f'1..{tap.n}', flush=True)
    return bool(tap.failed) or not tap.n


if __name__ == '__main__':
    sys.exit(main())
