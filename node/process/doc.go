// Package process builds a running node from a config.Config. It implements the command run.
//
// # Types
//
//   - Process is a node with its ports: New opens everything, Run serves until its context ends.
//   - credentials contains the secret, the certificates and the admin tokens, and reloads their files.
//   - tlsListener is the port for app traffic, with a certificate that can be replaced.
//   - accessLogs is the current access log and the ones that it has replaced.
//
// It is the only package that depends on both the settings and the packages that they configure.
//
// # Concurrency
//
// New and Run are called once each, in this order. Reload can be called while Run is running; calls
// of Reload must not overlap. All goroutines start in Run and end before it returns.
//
// # Invariants
//
//   - New resolves names and opens the data directory before it opens a port. Both can fail, and
//     closing a port again resets the connections that clients have made to it.
//   - A failed Reload changes nothing. An invalid file leaves the previous certificate, secret or
//     token list in use.
//   - The admin ports respond until the node has stopped.
package process
