package consensus

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"

	"shardway/node/logs"
)

// transport is the library's transport with patience for servers that cannot be
// reached. Each error that Raft sees doubles the pause before it sends entries
// to that server again, up to ten seconds, and a server that is back must not
// wait for that. So a failed dial is no error as long as this node leads.
//
// It embeds the library's, which keeps the pre-vote: Raft looks for its method.
type transport struct {
	*raft.NetworkTransport
	// waits reports whether it is worth trying on: this node still leads in the
	// term and the server is still to be led.
	waits func(id raft.ServerID, term uint64) bool
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// newTransport returns the transport over o.Stream.
func newTransport(o *Options, waits func(raft.ServerID, uint64) bool) *transport {
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          o.Stream,
			MaxPool:         2, // One for entries, one for heartbeats; each keeps 512 KB.
			MaxRPCsInFlight: 1,
			Timeout:         o.Timeout,
			Logger:          logs.Hclog(o.Log, "raft-net"),
		}),
		waits: waits,
	}
}

// AppendEntries sends entries, or a heartbeat. A heartbeat never waits: Raft
// sends the next one soon.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	send := func() error { return t.NetworkTransport.AppendEntries(id, addr, req, resp) }
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0 {
		return send()
	}
	return t.patiently(id, req.Term, send)
}

// InstallSnapshot sends a snapshot. Nothing of data is read before the dial.
func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.patiently(id, req.Term, func() error {
		return t.NetworkTransport.InstallSnapshot(id, addr, req, resp, data)
	})
}

// patiently sends until the server could be reached. Stream.Dial paces it.
func (t *transport) patiently(id raft.ServerID, term uint64, send func() error) error {
	for {
		err := send()
		var d *dialError
		if !errors.As(err, &d) || d.final || !t.waits(id, term) {
			return err
		}
	}
}
