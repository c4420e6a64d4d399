// Package auth decides who may use an admin port.
//
// # Types
//
//   - Access contains the tokens, certificate authorities and host names of a port. Its Authenticate
//     identifies the Caller of a request and its Permission. Required returns the Permission that a
//     request needs.
//   - Tokens is a set of named tokens. ParseTokens reads it from a file.
//   - RejectionLimit counts rejected requests per source.
//
// # Concurrency
//
// Access and Tokens are immutable. RejectionLimit is safe for concurrent use.
//
// # Invariants
//
//   - Tokens are stored and compared as hashes. The duration of a comparison depends neither on the
//     token nor on the position of the match.
//   - Errors contain no part of a token.
package auth
