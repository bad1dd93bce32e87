#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma-core's own suite on a link: what it skips has to be in the list beside.
# ONLY=PATTERN runs a part of it.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

has_pyverbs || skip_all "needs python3-pyverbs"
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
pages=/proc/sys/vm/nr_hugepages
if [ -w $pages ]; then
	defer "echo $(cat $pages) >$pages"
	echo 32 >$pages
fi
echo "# $(grep HugePages_Free /proc/meminfo | tr -s ' '), rdma-core $(dpkg-query -W -f '${Version}' python3-pyverbs), Linux $(uname -r)"

cp "$(dirname "$0")/skips" "$TMP/skips"
# what came with rdma-core 65
[ ! -e "$suite/test_buf.py" ] || cat "$(dirname "$0")/skips.65" >>"$TMP/skips"
# User-Mode Linux has none
[ -d /sys/kernel/mm/hugepages/hugepages-2048kB ] || printf '*.*huge*\tkernel\tno huge pages\n' >>"$TMP/skips"

tap_from suite ip netns exec a "$PYTHON" "$(dirname "$0")/suite.py" --suite "$suite" \
	--skips "$TMP/skips" ${ONLY:+--only "$ONLY"} -- \
	--dev roce0 --gid "$(gid_index roce0 192.168.77.1)"
done_testing
