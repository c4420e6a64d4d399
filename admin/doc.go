// Package admin is the operator's side of a node: the admin HTTP server, the JSON
// it speaks, and the client that the commands use.
//
// Server answers from what Cluster tells it and keeps nothing itself. Cluster is
// implemented by package node; each of its methods is called from the goroutine
// of one request, many at a time, and answers from a snapshot without waiting,
// except WaitMap and Do. Any node answers any request: what only the leader can
// do, Do passes to it.
//
// Every request, whatever its path, passes Server.guard first; that is the place
// for whatever must hold for all of them. A node's own socket, in its data directory, is
// beside that (ServeSelf): the mode of the file lets nobody in but who may stop the node.
//
// The names in the JSON are fixed: scripts read them. A field may be added, none
// renamed.
package admin
