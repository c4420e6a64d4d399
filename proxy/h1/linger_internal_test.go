package h1

import (
	"testing"
	"time"
)

// lingerStep is one check of a lingering connection, some seconds after the previous check.
type lingerStep struct {
	after   int
	heard   bool
	unacked int
	over    bool
}

func TestLingerEndsWithSilenceAndAnEmptyQueue(t *testing.T) {
	for name, c := range map[string]struct {
		request LingerAfter
		steps   []lingerStep
	}{
		"the client has it all and owes nothing":     {WholeRequest, []lingerStep{{1, false, 0, true}}},
		"it sends another request":                   {WholeRequest, []lingerStep{{1, true, 0, false}, {1, false, 0, true}}},
		"it has it all and is amid its request":      {PartOfRequest, []lingerStep{{1, false, 0, false}, {4, false, 0, false}, {1, false, 0, true}}},
		"it acknowledges slowly":                     {WholeRequest, []lingerStep{{4, false, 900, false}, {4, false, 800, false}, {4, false, 700, false}, {4, false, 0, true}}},
		"it acknowledges nothing":                    {PartOfRequest, []lingerStep{{4, false, 1000, false}, {1, false, 1000, true}}},
		"the kernel tells nothing":                   {WholeRequest, []lingerStep{{4, false, -1, false}, {1, false, -1, true}}},
		"it acknowledges, and sends, for too long":   {PartOfRequest, []lingerStep{{4, true, 900, false}, {4, true, 800, false}, {4, true, 700, false}, {17, true, 600, false}, {1, true, 500, true}}},
		"it sends for as long as it likes, but 30 s": {PartOfRequest, []lingerStep{{29, true, 0, false}, {1, true, 0, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := lingerState{request: c.request, start: now, lastReceived: now, lastProgress: now, unacked: 1000}
			if c.steps[0].unacked < 0 {
				l.unacked = -1
			}
			for i, s := range c.steps {
				now = now.Add(time.Duration(s.after) * time.Second)
				if over := l.isOver(now, s.heard, s.unacked); over != s.over {
					t.Fatalf("step %d: over = %v", i, over)
				}
			}
		})
	}
}
