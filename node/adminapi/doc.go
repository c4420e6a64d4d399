// Package adminapi implements the services that a node offers at its admin port.
//
// An API collects a response from three sources: the parts of this node (the router, the proxy, the agent), the
// other nodes, which it asks with control.Broadcast, and the leader, which leaderloop.Client asks. Files are named
// after the resources of the admin port. Checkups, Load, Running and WebSockets ask all nodes, and own the caches
// of the results. The methods whose names begin or end with Local serve the requests of other nodes, and
// LocalReport returns the report of this node.
//
// # Concurrency
//
// All methods are safe for concurrent use. Results that cost requests to all nodes are cached for
// control.CacheTime, so many callers cause few requests.
//
// # Invariants
//
//   - One status is consistent: all of its parts are computed from the same replicated state.
//   - A node that does not respond in time is listed as unresponsive, and does not delay the response any longer.
package adminapi
