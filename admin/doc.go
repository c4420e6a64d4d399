// Package admin contains the admin HTTP server of a node. Package admin/api contains the JSON types
// and the interfaces to the node, and package admin/client the client that the commands use.
//
// # Types
//
//   - Server serves the admin port: probes, status, lists, actions, events, metrics, profiles and
//     the dashboard. It keeps no state of the cluster. Its api.Set contains the services of the
//     node; the server responds with 404 to requests for a service that is nil.
//   - Package admin/auth decides who may send a request, and package admin/connlimit limits the
//     connections and requests of a client.
//
// # Concurrency
//
// The server calls each service from the goroutine of one request, for many requests concurrently.
// Every node accepts every request: Cluster.Do forwards an action that needs the leader.
//
// # Invariants
//
//   - Every request passes Server.guard first, whatever its path. Rules for all requests belong
//     there. The local socket (ServeLocal) has no guard: its file mode admits only users that could
//     stop the node anyway.
//   - Each client is limited: connections, concurrent lists and event readers per source address
//     (package admin/connlimit), bytes and time of a request (limitBody, serve), and rejected
//     requests per minute (auth.RejectionLimit).
package admin
