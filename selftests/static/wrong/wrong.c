// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A big-endian value taken for a number: if sparse says nothing of it, it has not looked. */
#include <linux/module.h>

u32 wrong(__be32 value);

u32 wrong(__be32 value)
{
	return value;
}

MODULE_DESCRIPTION("what sparse has to find fault with");
MODULE_LICENSE("Dual BSD/GPL");
