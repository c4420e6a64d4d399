package node

import "shardway/peer/mux"

// Lane opens a lane to another node as the proxy does; nil: there is none now.
func (n *Node) Lane(node string) *mux.Stream {
	return n.router.RequestStreams.Outgoing.OpenStream(node)
}

// LanesOf counts the lanes of another node that this one serves.
func (n *Node) LanesOf(node string) int {
	return n.router.RequestStreams.StreamsFrom(node)
}

// Accepted counts the streams of others that the node has taken.
func (n *Node) Accepted() uint64 { return n.port.Stats().Accepted }

// Attached counts the kept sockets of the node's clients that have a leg.
func (n *Node) Attached() (count int) {
	for _, x := range n.proxy.WebSocketCounts() {
		count += x.Attached
	}
	return count
}

// LegsTo counts the trunks for WebSockets that this node has dialed.
func (n *Node) LegsTo() int { return n.router.WebSocketStreams.Outgoing.Len() }
