//go:build linux

package peerproxy

import "bytes"

// MessagePack's nil and empty array.
const (
	msgpackNil   = 0xc0
	msgpackEmpty = 0x90
)

// carriesLog tells whether a piece of a Raft stream holds log entries or the
// head of a snapshot. Raft encodes its requests as MessagePack maps, whose keys
// are the names of the fields; an AppendEntries without entries is a heartbeat,
// or news of the commit index.
func carriesLog(b []byte) bool {
	for rest := b; ; {
		_, after, ok := bytes.Cut(rest, []byte("\xa7Entries"))
		if !ok || len(after) == 0 {
			break
		}
		if after[0] != msgpackNil && after[0] != msgpackEmpty {
			return true
		}
		rest = after
	}
	return bytes.Contains(b, []byte("SnapshotVersion"))
}
