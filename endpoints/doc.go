// Package endpoints contains the directory of network addresses that cluster members announce.
//
// A member announces each endpoint as a Serf tag: `ep.http` = `10.0.0.5:8080`. The names
// http, peer and admin stand for the ports of the node itself; operators can announce
// other names. A Serf member that is not a Shardway node can announce endpoints, too.
//
//	Tags     ──► Serf ──► FromTags ──► New(entries) ──► *Directory
//	(sender)                            (receiver)
//
// Serf carries at most 512 bytes of tags per member, so a tag must not contain anything
// that grows with the cluster. Tags checks the size before Serf does, and its error names
// the largest tags. FromTags ignores endpoints that no correct sender announces, because
// nodes dial the addresses and the admin API returns them.
//
// A [Directory] is immutable. When the members change, package node builds a new Directory
// and replaces an atomic pointer. Any number of goroutines may read a Directory.
package endpoints
