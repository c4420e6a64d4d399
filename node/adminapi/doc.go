// Package adminapi implements the services that a node offers at its admin port.
//
// An API answers from three sources: the parts of this node (the router, the proxy, the agent), the other nodes,
// which it asks with control.Broadcast, and the leader, which leaderloop.Client asks. The files are named after
// the subjects of the admin port. Requests of other nodes for a part of such an answer end in the same API, in
// its methods whose names begin with Local.
//
// # Concurrency
//
// All methods are safe for concurrent use. Results that cost requests to all nodes are cached for
// control.CacheTime, so many callers cause few requests.
//
// # Invariants
//
//   - One status is consistent: all of its parts are computed from the same replicated state.
//   - A node that does not respond in time is listed as unresponsive, and delays no answer further.
package adminapi
