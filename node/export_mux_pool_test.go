package node

import "shardway/peer/mux"

// OpenMuxStream opens a mux stream to another node, as the proxy does. nil means that there is none now.
func (n *Node) OpenMuxStream(node string) *mux.Stream {
	return n.router.RequestStreams.Outgoing.OpenStream(node)
}

// MuxStreamsOf returns the number of mux streams from another node that this node serves.
func (n *Node) MuxStreamsOf(node string) int {
	return n.router.RequestStreams.StreamsFrom(node)
}

// Accepted returns the number of peer streams that the node has accepted.
func (n *Node) Accepted() uint64 { return n.port.Stats().Accepted }

// Attached returns the number of resumable WebSockets of clients of this node that have an upstream connection.
func (n *Node) Attached() (count int) {
	for _, x := range n.proxy.WebSocketCounts() {
		count += x.Attached
	}
	return count
}

// OutgoingWebSocketSessions returns the number of mux sessions for WebSockets that this node has dialed.
func (n *Node) OutgoingWebSocketSessions() int { return n.router.WebSocketStreams.Outgoing.Len() }
