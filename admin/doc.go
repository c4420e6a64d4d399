// Package admin contains the admin HTTP server of a node, the JSON types of its API, and the client
// that the commands use.
//
// # Types
//
//   - Server serves the admin port: probes, status, lists, actions, events, metrics, profiles and
//     the dashboard. It keeps no state of the cluster.
//   - Cluster is the interface to the node. Package node implements it. Optional parts of the API
//     are interfaces of their own (PlanAPI, PolicyAPI and others); the server finds them by type
//     assertion and responds with 404 if the node does not implement one.
//   - Client sends requests to the admin port of one node. LocalClient uses the Unix socket in the
//     data directory of a node.
//   - Access contains the tokens, certificate authorities and host names of an admin port.
//
// # Concurrency
//
// The server calls each method of Cluster from the goroutine of one request, for many requests
// concurrently. A method answers from a snapshot and does not block, except WaitMap, Do and the
// methods of the optional interfaces that have a context. Every node accepts every request: Do
// forwards an action that needs the leader.
//
// # Invariants
//
//   - Every request passes Server.guard first, whatever its path. Rules for all requests belong
//     there. The local socket (ServeLocal) has no guard: its file mode admits only users that could
//     stop the node anyway.
//   - JSON names are stable, because scripts read them. Fields may be added, but not renamed.
//   - Each client is limited: connections, concurrent lists and event readers per source address
//     (LimitConns, sourceLimit), bytes and time of a request (limitBody, serve), and rejected
//     requests per minute (rejectionLimit).
package admin
