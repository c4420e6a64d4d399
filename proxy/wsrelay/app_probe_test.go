package wsrelay_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/wsrelay"
)

// The kernel closes the sockets of a dying process in any order. Connections may end before the
// listener does, and a connection that is accepted in between is reset.
func TestAppThatDropsAcceptedConnCountsAsRefusing(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // until the app resets the connection; zero: never
		want  bool
	}{
		"it drops it":           {5 * time.Millisecond, true},
		"it keeps it":           {0, false},
		"it dropped it at once": {time.Nanosecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			probe := wsrelay.AppProbe{Dial: func() (net.Conn, error) {
				here, there := net.Pipe()
				go func() { // ends with the connection
					if tt.after > 0 {
						time.Sleep(tt.after)
						_ = there.Close()
						return
					}
					_, _ = there.Read(make([]byte, 1))
				}()
				return here, nil
			}}
			if got := probe.Refuses(); got != tt.want {
				t.Errorf("%s: refuses = %v, want %v", name, got, tt.want)
			}
		})
	}
}
