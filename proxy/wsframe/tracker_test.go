package wsframe_test

import (
	"bytes"
	"strings"
	"testing"

	"shardway/proxy/wsframe"
)

// A Tracker accepts a frame exactly between two frames, whatever extensions the endpoints use, and none
// after a close frame.
func TestTrackerFindsEndsOfFrames(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, masked := range []bool{false, true} {
		frames := [][]byte{
			frame(0x01, masked, "a"), frame(0x89, masked, "ping"), frame(0x80, masked, "b"), frame(0xc1, masked, "compressed"),
			frame(0x82, !masked, long[:300]), frame(0x82, masked, long), frame(0x83, masked, ""),
		}
		ends := map[int]bool{0: true}
		at := 0
		for _, f := range frames {
			at += len(f)
			ends[at] = true
		}
		stream := bytes.Join(frames, nil)
		for _, size := range []int{1, 3, 1000} {
			var tracker wsframe.Tracker
			for at := 0; at < len(stream); {
				n := min(size, len(stream)-at)
				tracker.Advance(stream[at : at+n])
				if at += n; tracker.AcceptsFrame() != ends[at] {
					t.Fatalf("masked %v, chunks of %d, byte %d: AcceptsFrame = %v", masked, size, at, !ends[at])
				}
			}
			if tracker.Closed() {
				t.Error("Closed before the close frame")
			}
			tracker.Advance(frame(0x88, masked, "\x03\xe8"))
			if !tracker.Closed() || tracker.AcceptsFrame() {
				t.Error("a frame is accepted after the close frame")
			}
		}
	}
}
