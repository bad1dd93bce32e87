// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA in one file: a server lends out a buffer, a client writes into it and reads it
 * back, and while it does the server's program sleeps.
 *
 *	server$ ./remote_buffer -s 192.0.2.1
 *	client$ ./remote_buffer -c 192.0.2.1 "Hello, memory"
 *
 * What happens, in order:
 *
 *	server					client
 *	listens
 *						connects
 *	registers a buffer, accepts and
 *	says where it is: address and key
 *						WRITEs into the buffer
 *						READs the buffer into another one
 *	  (has no part in these two)		compares the two
 *						SENDs an empty message: that was all
 *	receives it, looks at its buffer
 *
 * rdma_cm makes connections by IP addresses, as sockets do. What goes over them is posted
 * as requests to a queue pair and comes back as completions; rdma_verbs.h has a function
 * for each that hides the structures of ibv_post_send(3) and ibv_poll_cq(3).
 */
#include <endian.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT	"7471"
#define BUF_LEN	4096

/*
 * Where the server's buffer is. It goes to the client with the answer to its call, as up
 * to 196 bytes may ("private data"). The two may be different machines, so its bytes are
 * in network order. Who knows the key may do to the buffer what the server registered it
 * for, as long as the connection stands.
 */
struct offer {
	uint64_t addr;
	uint32_t rkey;
	uint32_t len;
};

static void die(const char *what)
{
	fprintf(stderr, "remote_buffer: %s: %s\n", what, strerror(errno));
	exit(1);
}

/*
 * A communication identifier is what a socket is to TCP. With it comes a queue pair, with
 * room for some requests at a time; each of the two sides needs one.
 */
static struct rdma_cm_id *make_id(const char *host, int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags };
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 4,	/* requests that are under way */
			.max_recv_wr = 4,
			.max_send_sge = 1,	/* pieces of memory in each */
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,		/* every request has a completion */
	};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(host, PORT, &hints, &info))
		die(host);
	if (rdma_create_ep(&id, info, NULL, &attr))
		die("no RDMA device has this address, or a way to it");
	rdma_freeaddrinfo(info);
	return id;
}

/* Wait for the completion of a request: it was done, or why it could not be. */
static void done(struct rdma_cm_id *id, const char *what)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(id, &wc) < 1)
		die(what);
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "remote_buffer: %s: %s\n", what, ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static int server(const char *host)
{
	/* as many READs at a time as a client may want to have under way */
	struct rdma_conn_param param = { .responder_resources = 1 };
	struct rdma_cm_id *listener, *id;
	static char buf[BUF_LEN];
	struct offer offer;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	listener = make_id(host, RAI_PASSIVE);
	if (rdma_listen(listener, 0))
		die("listen");
	printf("waiting at %s\n", host);
	fflush(stdout);
	if (rdma_get_request(listener, &id))
		die("get_request");

	/*
	 * Registered memory stays where it is, and the device knows it. Without the rights
	 * for others given here, nobody but this program's own requests may touch it.
	 */
	mr = ibv_reg_mr(id->pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		die("reg_mr");
	offer.addr = htobe64((uintptr_t)buf);
	offer.rkey = htobe32(mr->rkey);
	offer.len = htobe32(sizeof(buf));

	/* A SEND needs a receive request that waits for it; WRITEs and READs need none. */
	if (rdma_post_recvv(id, NULL, NULL, 0))
		die("post_recv");
	param.private_data = &offer;
	param.private_data_len = sizeof(offer);
	if (rdma_accept(id, &param))
		die("accept");

	if (rdma_get_recv_comp(id, &wc) < 1)
		die("receive");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "remote_buffer: receive: %s\n", ibv_wc_status_str(wc.status));
		return 1;
	}
	buf[BUF_LEN - 1] = 0;
	printf("in the buffer: %s\n", buf);

	rdma_disconnect(id);
	ibv_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	return 0;
}

static int client(const char *host, const char *message)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 7 };
	static char out[BUF_LEN], in[BUF_LEN];
	struct ibv_mr *out_mr, *in_mr;
	struct rdma_cm_id *id;
	struct offer offer;
	uint64_t addr;
	uint32_t rkey;

	snprintf(out, sizeof(out), "%s", message);
	id = make_id(host, 0);
	if (rdma_connect(id, &param))
		die("connect");

	/* The event that says we are connected has the server's words with it. */
	if (id->event->param.conn.private_data_len < sizeof(offer)) {
		fprintf(stderr, "remote_buffer: that is another kind of server\n");
		return 1;
	}
	memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
	addr = be64toh(offer.addr);
	rkey = be32toh(offer.rkey);
	if (be32toh(offer.len) < BUF_LEN) {
		fprintf(stderr, "remote_buffer: its buffer is too small\n");
		return 1;
	}

	/* What a request takes from or puts to has to be registered as well. */
	out_mr = rdma_reg_msgs(id, out, sizeof(out));
	in_mr = rdma_reg_msgs(id, in, sizeof(in));
	if (!out_mr || !in_mr)
		die("reg_msgs");

	if (rdma_post_write(id, NULL, out, BUF_LEN, out_mr, 0, addr, rkey))
		die("post_write");
	done(id, "WRITE");
	if (rdma_post_read(id, NULL, in, BUF_LEN, in_mr, 0, addr, rkey))
		die("post_read");
	done(id, "READ");
	printf("read back: %s\n", in);

	if (rdma_post_sendv(id, NULL, NULL, 0, 0))
		die("post_send");
	done(id, "SEND");

	rdma_disconnect(id);
	ibv_dereg_mr(out_mr);
	ibv_dereg_mr(in_mr);
	rdma_destroy_ep(id);
	return memcmp(in, out, BUF_LEN) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-s"))
		return server(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "-c"))
		return client(argv[2], argv[3]);
	fprintf(stderr, "usage: remote_buffer -s ADDRESS\n"
			"       remote_buffer -c ADDRESS MESSAGE\n");
	return 2;
}
