package config

import "strconv"

const (
	// otherFiles is for what a node has open besides the connections that have settings of
	// their own: up to 512 at the admin port and as many for probes (connlimit.MaxConns), and its
	// disk, gossip, Raft, connections that wait, and the pipes by which long answers go (h1).
	otherFiles = 2*512 + 256
	// sides: whatever comes in goes on, to the app or to another node.
	sides = 2
)

// Descriptors is how many files and connections a node may have open at once by its own
// bounds. A kept socket is two where its client is connected, one to the client and one to
// the owner, and two at the owner, one to that node and one to the app.
func (c *Config) Descriptors() int {
	conns := c.MaxConns
	if !c.Gateway() {
		conns += c.MaxUpstreamConns + c.MaxStreams
	}
	return sides*conns + otherFiles
}

// Files is the condition between what the system lets a process have open and the bounds
// of connections.
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

// socketFigures says how many sockets a node may have, and what they cost it.
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
