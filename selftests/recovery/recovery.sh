#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# One packet is lost, by name: what is sent again, what is kept, what is counted,
# and that nothing of it waits for a timeout. The wire is a program.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need_bin recovery
load_module
hosts_up_relay
links_up
for t in one_write one_send several again last no_retry one_read one_atomic mixed xrc exhausted \
	 no_timeout wrong_behind not_ready; do
	tap_from "$t" "$BIN/recovery" -d roce0 -D roce1 $t
done
done_testing
