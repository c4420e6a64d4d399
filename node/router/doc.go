// Package router decides where the requests of a node run: at its own app, at another node, or nowhere yet.
//
// A Router contains the routing table, the lease of the node and the numbers of in-flight requests. It
// implements proxy.Cluster.
//
// # Concurrency
//
// One goroutine, the agent of the node, calls SwapTable, SetAbortTime, SetLease and HadRequests. All other
// methods are safe for concurrent use. A request reads the table and the lease with atomic loads, and takes
// no lock.
//
// # Invariants
//
//   - Admit counts a request before it reads the table and the lease. The agent replaces the table
//     before it reads the count. As a result, no request is admitted after the agent has seen that
//     none is running.
//   - A request is admitted only if this node owns its shard and has a lease.
package router
