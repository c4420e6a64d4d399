// Package route contains the routing table of a node: for each shard, whether its requests are
// served here, are forwarded to another node, or wait in the queue.
//
// The node builds a Table for each change of the shard map or of its lease, and stores it in an
// atomic pointer. A Table does not change, so requests read it without locks. Table.Generation
// increases with each table, and queued requests wait for a higher generation.
//
//	Queued   the request waits in the queue; Route.Reason is the cause
//	Local    the app of this node serves the request
//	Remote   the node Route.Node serves the request
//
// Refusal is the reason why an owner did not run a forwarded request. The sender then waits or
// tries again. Explainer returns why a queued request is not served. KeyPlacer determines which node owns
// a generated key.
package route
