// Package secret holds what keeps strangers out: the cluster's secret, and the
// mutual TLS between nodes that follows from it.
//
// One secret of 32 bytes, kept in a file that only the node may read, gives
// every node the same two things by HKDF-SHA256 (RFC 5869), each by a label of
// its own:
//
//	                ┌─ gossip key ──► memberlist, AES-256-GCM
//	secret ─ HKDF ──┼─ proof key, and a key for each stream ──► rotation
//	                └─ CA seed ─────► Ed25519 authority, the same bytes everywhere
//	                                     └─ signs one leaf per process start: the
//	                                        node's id in its SAN, fixed validity
//
// A List is what a file holds: the first secret is used, all are accepted, which
// is how a secret is replaced without a pause. A Trust is what a List, or the
// user's own certificates (PKI), amount to for TLS; it never changes. A TLSWrapper
// wraps the streams between nodes by the Trust of the moment and can be given
// another at any time. A Store ties a file to both.
//
// The rules that must hold:
//
//   - TLS 1.3 only, both sides verified, one known ALPN name; who names none is
//     refused.
//   - A certificate is good for the node whose id stands in it, and no other:
//     TLSWrapper checks the node that was dialed, the peer port the node that a dialer
//     claims to be.
//   - Certificates made from a secret are judged at a fixed time: no clock
//     decides who may speak.
//   - A resumed session gives nothing that a new one would not: its certificates are
//     judged again, and it ends with the Trust that it began at (session.go).
//   - Older secrets shut out no newer one: what a node is asked to do with its
//     secrets it does for who shows, on that stream, the newest one it has; see
//     Store and Proofs. A certificate shows none.
//   - No secret is ever printed. What stands for one in logs and answers is its
//     Fingerprint.
//
// All crypto is the standard library's.
package secret
