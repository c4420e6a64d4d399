//go:build linux

// Command bench measures what a request costs in the proxy, beside nginx and
// HAProxy in the same run: `make bench-proxy`.
//
//	wrk ──► line ──► backend
//
// A line is what stands between: nothing, nginx with one worker, HAProxy with one
// thread, or a node of a cluster of two; with two hops, nginx before nginx, or a
// node that does not own the key before the one that does. All have the same
// duties: choose by a consistent hash of X-Shard-Key, keep connections, write
// X-Forwarded-*, Via and a request id, log no requests. Ours runs with the flags
// of the README.
//
// Two further lines show an app in the process of its node (package embed): "app
// behind shardway" is the cost of node and backend together, "app in shardway" that of
// one process with the backend's handler within.
//
// Cases with TLS in front go by lines of their own: the same nginx and the same HAProxy
// at a port with TLS, and a cluster with --tls-cert. All have one certificate (P-256).
//
// What observing costs has a case and lines of its own, each a cluster of one node: without
// what counts requests (package uncounted), as it is, with an access log, and scraped while
// its events are followed. They are compared with the first, round by round, and asked
// whether they are what they are called.
//
// Cases with a client beside have a further one read or send long bodies at a steady rate, by
// the way of the small requests, and are about p99: measured without it first, each round.
//
// What nodes take that nobody asks anything is measured apart (-idle, `make bench-idle`):
// clusters of three, side by side.
//
// The lines take turns within each case, so that whatever else the machine does
// meets all of them. CPU time is that of all processes of a line, children
// included, from their clocks before and after; results are medians of the
// rounds. All is on loopback and ends with this process.
package main
