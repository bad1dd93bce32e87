#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What needs no compiler: cppcheck finds nothing; versions of kernels are known in one
# file; a kernel that cannot have the module is refused before anything is compiled.

. "$(dirname "$0")/static.sh"

if command -v cppcheck >/dev/null; then
	# It takes loops that fill a variable, and one of two arguments that is NULL, for errors.
	silent "cppcheck" cppcheck -q --max-configs=1 --enable=warning --suppress=unknownMacro \
		--suppress=uninitvar --suppress=ctunullpointer -D__KERNEL__ drivers tools/provider
else
	skip "cppcheck" "needs cppcheck"
fi

is "$(grep -rlE 'LINUX_VERSION_CODE|KERNEL_VERSION\(' drivers)" drivers/infiniband/sw/sroce/compat.h \
	"what differs between kernels is in one file"

for lack in 64BIT= PCI= INFINIBAND_USER_ACCESS= PREEMPT_RT=y; do
	want=CONFIG_${lack%=*}=$([ "${lack#*=}" ] && echo n || echo y)
	refused "a kernel with CONFIG_$lack" "sroce cannot work in this kernel, which would need $want" \
		module "CONFIG_$lack"
done
done_testing
