// Package client contains the client of the admin API. The commands use it.
//
// # Types
//
//   - Client sends requests to the admin port of one node.
//   - LocalClient sends requests to the Unix socket in the data directory of a node.
//   - Credentials contain the token and the certificates of a Client.
//
// # Concurrency
//
// Both clients are safe for concurrent use. Each method sends one request and returns when the
// response is complete, a timeout has passed or its context ends.
//
// # Invariants
//
//   - Errors are written for the user of a command: they contain the address and the remedy. An error
//     response of the node is a *problem.Problem.
//   - A token is sent in clear text only to a loopback address, or if the address starts with http://.
//   - A response is limited in time and size, because the address may belong to another program.
package client
