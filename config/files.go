package config

import "strconv"

const (
	// otherFiles is the number of descriptors for all other purposes: up to 512 connections each at the
	// admin port and for probes (connlimit.MaxConns), the disk, gossip, Raft, waiting connections, and
	// the pipes for long responses (package h1).
	otherFiles = 2*512 + 256
	// sides is 2, because each incoming connection has a connection to the app or to another node.
	sides = 2
)

// Descriptors returns the maximum number of open files and connections by the limits of the node. A
// resumable WebSocket counts twice at the node of its client (client and owner) and twice at the owner
// (node of the client and app).
func (c *Config) Descriptors() int {
	conns := c.MaxConns
	if !c.Gateway() {
		conns += c.MaxUpstreamConns + c.MaxStreams
	}
	return sides*conns + otherFiles
}

// Files returns the rule that Descriptors must not exceed limit, the maximum number of open files.
func (c *Config) Files(limit uint64) Bound {
	need, keys := c.Descriptors(), "max-conns"
	if !c.Gateway() {
		keys = "max-conns, max-upstream-conns or max-streams"
	}
	return Bound{
		Rule: "descriptors ≤ file limit", Figures: strconv.Itoa(need) + " ≤ " + strconv.FormatUint(limit, 10), Holds: uint64(need) <= limit, Advice: true,
		Why:  "else sockets and clients are refused before their bounds are reached: raise it (ulimit -n, LimitNOFILE), or lower " + keys,
		keys: []string{"max-conns", "max-upstream-conns", "max-streams"}, remedy: "raise the limit of open files to " + strconv.Itoa(need),
	}
}

// socketFigures returns the maximum number of WebSockets and of descriptors.
func (c *Config) socketFigures() []Figure {
	at := strconv.Itoa(c.MaxConns) + " of clients here"
	if !c.Gateway() {
		at += ", " + strconv.Itoa(c.MaxStreams) + " at the app here"
	}
	return []Figure{
		{"sockets at most", at, "max-conns where their clients are, max-streams where their app is; a socket takes two descriptors at either, and two in all where both are one"},
		{"descriptors at most", strconv.Itoa(c.Descriptors()), "two for each connection that the bounds allow, and " + strconv.Itoa(otherFiles) + " for the rest"},
	}
}
