#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The opcode table and the parser against the specification's text, on buffers
# of exactly the bytes that the parser may read.

. "$(dirname "$0")/wire.sh"

run_test parse
