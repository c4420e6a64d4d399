package node

import "shardway/admin"

// socketCounts counts the long-lived connections here.
func (n *Node) socketCounts() admin.SocketCounts {
	c := admin.SocketCounts{App: n.proxy.Sockets(), Streams: n.proxy.ResumableStreams()}
	for _, x := range n.proxy.KeptSockets() {
		c.Attached += x.Attached
		c.Detached += x.Detached
	}
	return c
}
