//go:build linux

// Command bench measures the cost of a request in the proxy, in comparison with nginx and
// HAProxy in the same run: `make bench-proxy`.
//
//	wrk ──► setup ──► backend
//
// A setup is what is measured: the proxies between wrk and the
// backend. It is empty, nginx with one worker, HAProxy with one thread, or a node of a
// cluster of two. With two hops it is nginx in front of nginx, or a node in front of the
// node that owns the key. All setups have the same tasks: consistent hashing of
// X-Shard-Key, persistent connections, X-Forwarded-*, Via and a request ID, and no access
// log. Nodes run with the flags of the README.
//
// Two more setups have an app in the process of its node (package embed). "app behind
// shardway" is the cost of node and backend together. "app in shardway" is the cost of
// one process that contains the handler of the backend.
//
// Cases with TLS in front have their own setups: the same nginx and the same HAProxy at a
// port with TLS, and a cluster with --tls-cert. All have one certificate (P-256).
//
// The cost of metrics and logs has its own case and four setups, each with one node:
//
//   - without request metrics (package uncounted)
//   - with request metrics
//   - with request metrics and an access log
//   - with request metrics, scrapes and an event stream
//
// Each is compared with the setup without request metrics, round by round. The command
// verifies that each node really counts or logs the requests of a measurement.
//
// Cases with an additional client let it read or send long bodies at a constant rate,
// over the same path as the small requests. In each round they measure p99 without this
// client, and then with it.
//
// The cost of idle nodes is measured separately (-idle, `make bench-idle`): clusters of
// three nodes, at the same time.
//
// The setups take turns within each case, so that other load of the machine affects all of
// them. The CPU time of a setup is the sum over its processes and their children. It is the
// difference between their CPU clocks before and after a measurement. Results are medians
// of the rounds. All processes use loopback addresses, and are killed when this process
// exits.
package main
