#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A consumer in the kernel, kverbs_test.ko, with its completions in a work queue
# and in softirq: make kverbs.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

load_module
ko=${KVERBS_KO:-$(dirname "$(sroce_ko)")/kverbs/kverbs_test.ko}
[ -f "$ko" ] || skip_all "no kverbs_test.ko for $(uname -r): make kverbs, or set KVERBS_KO"
hosts_up
links_up

# lib/irq_poll.c polls what is in a list of the CPU's, and relies on bottom halves to exclude each
# other there. Kernels for real time that have given that up corrupt it, whosever completions they are.
bh_lock() {
	{ zcat /proc/config.gz || cat "/boot/config-$(uname -r)"; } 2>/dev/null | grep -q ^CONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y
}
args=
if [[ $(uname -v) == *PREEMPT_RT* ]] && printf '%s\n' 6.18 "$(uname -r)" | sort -CV && ! bh_lock; then
	args=irq_poll=0
	skip "completions in a softirq" "irq_poll does not work with this kernel's bottom halves"
fi
run "the test runs" timeout 900 insmod "$ko" ${args:+"$args"}
dmesg | awk -v mark="$log_mark" 'seen { print } index($0, mark) { seen = 1 }' |
	sed -n 's/.*kverbs: //p' >"$TMP/kverbs"
while IFS= read -r line; do
	case $line in
	"ok - "*) ok "${line#ok - }" ;;
	"not ok - "*) not_ok "${line#not ok - }" ;;
	*) diag "$line" ;;
	esac
done <"$TMP/kverbs"
like "$(tail -n 1 "$TMP/kverbs")" "ended: 0 failed, error 0" "all of it was run"
rmmod kverbs_test
done_testing
