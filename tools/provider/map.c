// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The rings that the kernel answers with.
 */
#include <errno.h>
#include <sys/mman.h>

#include "sroce.h"

static_assert(sizeof(struct sroce_ring_map) == 24, "the ABI is fixed");

/**
 * sroce_map_ring - map a ring that the kernel has made
 * @ibctx: context
 * @v: where to put it
 * @map: the kernel's answer
 * @min_entry: what an entry must have room for
 *
 * A @map of zeroes is also what a kernel leaves that does not know of rings:
 * the rings that must be there are looked at like any other. The sizes are
 * checked once, so that no index can lead out of the mapping afterwards.
 *
 * Return: 0 or a positive errno.
 */
int sroce_map_ring(struct ibv_context *ibctx, struct sroce_ring_view *v,
		   const struct sroce_ring_map *map, uint32_t min_entry)
{
	void *mem;

	if (!map->entries || map->entries & (map->entries - 1) ||
	    map->entry_size < min_entry || map->entry_size % 4 ||
	    sizeof(struct sroce_ring) +
	    (uint64_t)map->entries * map->entry_size > map->size) {
		verbs_err(verbs_get_ctx(ibctx),
			  "ring of %u entries of %u bytes in %u bytes\n",
			  map->entries, map->entry_size, map->size);
		return EPROTO;
	}

	mem = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		   ibctx->cmd_fd, map->offset);
	if (mem == MAP_FAILED)
		return errno;

	v->ring = mem;
	v->entries = (uint8_t *)mem + sizeof(struct sroce_ring);
	v->num = map->entries;
	v->entry_size = map->entry_size;
	v->map_size = map->size;
	return 0;
}

/**
 * sroce_map_recv_ring - map the ring of a receive queue
 * @ibctx: context
 * @wq: where to put it
 * @map: the kernel's answer
 * @max_sge: what the kernel said that a request may have
 *
 * Return: 0 or a positive errno.
 */
int sroce_map_recv_ring(struct ibv_context *ibctx, struct sroce_wq *wq,
			const struct sroce_ring_map *map, uint32_t max_sge)
{
	wq->max_sge = sroce_min(max_sge, SROCE_MAX_SGE);
	return sroce_map_ring(ibctx, &wq->ring, map,
			      sizeof(struct sroce_recv_wqe) +
			      wq->max_sge * sizeof(struct sroce_sge));
}

void sroce_unmap_ring(struct sroce_ring_view *v)
{
	if (!v->ring)
		return;

	munmap(v->ring, v->map_size);
}
