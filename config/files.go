package config

import "strconv"

const (
	// otherDescriptors is the number of descriptors for all other purposes: up to 512 connections each at the
	// admin port and for probes (connlimit.MaxConns), the disk, gossip, Raft, waiting connections, and
	// the pipes for long responses (package h1).
	otherDescriptors = 2*512 + 256
	// descriptorsPerConn is 2, because each incoming connection needs a second one to the app or to another node.
	descriptorsPerConn = 2
)

// Descriptors returns the maximum number of open files and connections by the limits of the node. A
// resumable WebSocket counts twice at the node of its client (client and owner) and twice at the owner
// (node of the client and app).
func (c *Config) Descriptors() int {
	conns := c.MaxConns
	if !c.Gateway() {
		conns += max(len(c.Upstreams()), 1)*c.MaxUpstreamConns + c.MaxStreams
	}
	return descriptorsPerConn*conns + otherDescriptors
}

// DescriptorBound returns the rule that Descriptors must not exceed limit, the maximum number of open files.
func (c *Config) DescriptorBound(limit uint64) Bound {
	required, keys := c.Descriptors(), "max-conns"
	if !c.Gateway() {
		keys = "max-conns, max-upstream-conns or max-streams"
	}
	return Bound{
		Rule: "descriptors ≤ file limit", Figures: strconv.Itoa(required) + " ≤ " + strconv.FormatUint(limit, 10), Holds: uint64(required) <= limit, Advice: true,
		Why:      "otherwise connections fail before they reach their limits: raise the file limit (ulimit -n, LimitNOFILE), or lower " + keys,
		settings: []string{"max-conns", "max-upstream-conns", "max-streams"}, remedy: "raise the limit of open files to " + strconv.Itoa(required),
	}
}

// capacityFigures returns the maximum number of WebSockets and of descriptors.
func (c *Config) capacityFigures() []Figure {
	location := strconv.Itoa(c.MaxConns) + " of clients here"
	if !c.Gateway() {
		location += ", " + strconv.Itoa(c.MaxStreams) + " at the app here"
	}
	return []Figure{
		{"sockets at most", location, "max-conns where their clients are, max-streams where their app is; a socket takes two descriptors at either, and two in all where both are one"},
		{"descriptors at most", strconv.Itoa(c.Descriptors()), "two for each connection that the limits allow, and " + strconv.Itoa(otherDescriptors) + " for the rest"},
	}
}
