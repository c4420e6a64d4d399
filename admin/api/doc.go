// Package api defines the admin API of a node: the JSON types of its requests and responses, and the
// interfaces to the node that serves them.
//
// # Types
//
//   - Status, NodeList, ShardList, Map and others are the responses of the admin port. Each type
//     names its path.
//   - Action is a request of an operator to the cluster, with a Verb such as Drain or Pin. Nodes
//     forward its JSON form to the leader. Arguments are its parameters in a request.
//   - Set contains the interfaces that a node implements: Cluster, which is required, and one
//     service for each further part of the API. Package node implements all of them. Package admin
//     serves them over HTTP, and package admin/client sends the requests.
//   - ErrNoLeader, ErrUnknownNode, ErrRefused, ErrInvalid and ErrUnknown classify the errors of
//     actions. The admin port translates each to a status code.
//
// # Concurrency
//
// The admin port calls each method from the goroutine of one request, for many requests
// concurrently. A method returns a snapshot and does not block, unless its comment says so.
//
// # Invariants
//
//   - JSON names are stable, because scripts read them. Fields may be added, but not renamed.
//   - The package contains no I/O and starts no goroutine.
package api
