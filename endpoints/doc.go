// Package endpoints knows which addresses the members of a cluster announce.
//
// A member announces each as a Serf tag: `ep.http` = `10.0.0.5:8080`. The names
// http, peer and admin are those of a node's own ports; users add others. A
// Serf member that is no Shardway node may announce endpoints as well.
//
//	Tags     ──► Serf ──► FromTags ──► New(entries) ──► *Directory
//	(sender)                            (receiver)
//
// Serf carries 512 bytes of tags per member, so nothing that grows with the
// cluster belongs here. Tags checks the size before Serf does and says what takes
// the room. FromTags leaves out what no sender of ours would send, because what it
// returns ends up in dials and in answers to people.
//
// A Directory never changes once made: node makes one from the members that are
// there, whenever they change, and swaps a pointer. Any number of goroutines may
// read it.
package endpoints
