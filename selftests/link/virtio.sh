#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# types.sh on the network cards of a VM, by a driver that is bound and unbound.
# lab: cards
# lab: apart
# lab: timeout 1500

TYPES=virtio EVENTS="address mtu name mac down delete_link unregister move exit"
. "$(dirname "$0")/types.sh"
