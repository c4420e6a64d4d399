// Package secret holds the cluster secret and the mutual TLS between nodes that is derived
// from it.
//
// The secret has 32 bytes and is stored in a file that only the node may read. Every node derives
// the same keys from it with HKDF-SHA256 (RFC 5869), each with its own label:
//
//	                ┌─ gossip key ──► memberlist, AES-256-GCM
//	secret ─ HKDF ──┼─ proof key, and one key per stream ──► rotation
//	                └─ CA seed ─────► Ed25519 CA, the same bytes on every node
//	                                     └─ signs one leaf certificate per process start:
//	                                        node id in its SAN, fixed validity
//
// Main types:
//
//   - List is the content of a secret file. The first secret is used, all are accepted. A
//     rotation replaces a secret without downtime by moving from one list to the next.
//   - Trust is a List, or the operator's own certificates (PKI), prepared for TLS: the
//     certificate of this node and the accepted authorities. It is immutable.
//   - TLSWrapper wraps the streams between nodes in TLS with the current Trust, which
//     Replace exchanges at any time.
//   - Store keeps a List in step with its file and notifies the users of the List.
//
// All types are safe for concurrent use. The node calls Store.Run in a separate goroutine.
//
// Invariants:
//
//   - TLS 1.3 only. Both sides are verified and must negotiate the ALPN name of this
//     protocol.
//   - A certificate is valid only for the node ids that it contains. TLSWrapper checks the
//     id of the node that it dials. The peer port checks the id that a dialer claims.
//   - Certificates derived from a secret are verified at a fixed time, so no clock decides
//     which nodes may communicate.
//   - A resumed TLS session grants nothing that a new one would not. Its certificates are
//     verified again, and it ends with the Trust under which it began (session.go).
//   - An older secret cannot lock out a newer one. A node changes its secrets only for a
//     peer that proves, on that stream, possession of the newest secret that the node has
//     (Store, Proofs). A certificate does not prove possession of a secret.
//   - No secret is printed. Logs and responses contain its Fingerprint instead.
//
// All cryptography is from the standard library.
package secret
