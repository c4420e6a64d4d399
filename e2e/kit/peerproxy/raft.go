//go:build linux

package peerproxy

import "bytes"

// MessagePack codes of nil and of the empty array.
const (
	msgpackNil   = 0xc0
	msgpackEmpty = 0x90
)

// carriesLog reports whether a part of a Raft stream contains log entries or the header
// of a snapshot. Raft encodes its requests as MessagePack maps with field names as keys.
// An AppendEntries request without entries is a heartbeat, or announces the commit index.
func carriesLog(data []byte) bool {
	for rest := data; ; {
		_, after, ok := bytes.Cut(rest, []byte("\xa7Entries"))
		if !ok || len(after) == 0 {
			break
		}
		if after[0] != msgpackNil && after[0] != msgpackEmpty {
			return true
		}
		rest = after
	}
	return bytes.Contains(data, []byte("SnapshotVersion"))
}
