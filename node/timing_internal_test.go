package node

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/childproc"
)

// A node that starts the processes of its app stops if the cluster has takeover immediate.
func TestNodeWithProcessesStopsWithImmediateTakeover(t *testing.T) {
	for _, takeover := range []ack.Takeover{ack.TakeoverLease, ack.TakeoverTimeout, ack.TakeoverImmediate} {
		for _, processes := range []*childproc.Supervisor{nil, childproc.New(childproc.Options{})} {
			timing := ack.DefaultTiming()
			timing.Takeover = takeover
			state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 4, timing))
			if err != nil {
				t.Fatal(err)
			}
			var failure error
			check := timingCheck{
				options:    &Options{Pace: ack.DefaultPace(), Timing: timing, Processes: processes, Log: zerolog.Nop()},
				isUpToDate: func() bool { return true }, fail: func(err error) { failure = err },
			}
			check.compare(state)
			isUnsafe := takeover == ack.TakeoverImmediate && processes != nil
			if errors.Is(failure, errUnsafeTakeover) != isUnsafe || mayRunProcesses(timing) == (takeover == ack.TakeoverImmediate) {
				t.Errorf("takeover %v, with processes: %v: error %v", takeover, processes != nil, failure)
			}
		}
	}
}
