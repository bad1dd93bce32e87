#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma-core's own suite on a link: what it skips has to be in the list beside.
# ONLY=PATTERN runs a part of it.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

# Debian's python has pyverbs, another one in PATH has not
python=/usr/bin/python3
[ -x $python ] || skip_all "needs $python"
$python -c 'import pyverbs.device' 2>/dev/null || skip_all "needs python3-pyverbs"
need_bin xfer
packed=$(dirname "$(dpkg -L python3-pyverbs 2>/dev/null | grep '/tests/run_tests\.py')")
[ -e "$packed/run_tests.py.gz" ] || [ -e "$packed/run_tests.py" ] ||
	skip_all "the suite is not in python3-pyverbs"
suite=$TMP/tests
mkdir "$suite"
cp "$packed"/*.py* "$suite"
gunzip -q "$suite"/*.gz

probe rdma_ucm || skip_all "no rdma_ucm in this kernel"
load_module
hosts_up
links_up
echo 32 2>/dev/null >/proc/sys/vm/nr_hugepages
echo "# $(grep HugePages_Free /proc/meminfo | tr -s ' '), rdma-core $(dpkg-query -W -f '${Version}' python3-pyverbs), Linux $(uname -r)"

cp "$(dirname "$0")/skips" "$TMP/skips"
# what came with rdma-core 65
[ ! -e "$suite/test_buf.py" ] || cat "$(dirname "$0")/skips.65" >>"$TMP/skips"
# User-Mode Linux has none
[ -d /sys/kernel/mm/hugepages/hugepages-2048kB ] || printf '*.*huge*\tkernel\tno huge pages\n' >>"$TMP/skips"

set -f # patterns are not for the shell
# shellcheck disable=SC2086 # a list
tap_from suite ip netns exec a $python "$(dirname "$0")/suite.py" --suite "$suite" \
	--skips "$TMP/skips" ${ONLY:+--only $ONLY} -- \
	--dev roce0 --gid "$(gid_index roce0 192.168.77.1)"
done_testing
