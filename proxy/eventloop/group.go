package eventloop

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/rawio"
)

// Group contains the event loops of a server. Their number depends on the load, up to one per
// processor. While one event loop suffices, a request wakes no other goroutine, and the upstream
// connection is registered with the same loop. The zero value is ready.
type Group struct {
	// Log receives a debug line when no loop can be created. It must be set before the first use.
	Log zerolog.Logger
	// NewPoller replaces rawio.NewPoller in tests; nil means rawio.NewPoller. It must be set before
	// the first use.
	NewPoller func() (*rawio.Poller, error)

	// mu protects the following fields.
	mu          sync.Mutex
	listeners   int // listeners whose clients use the loops
	loops       []*Loop
	active      int  // number of loops that serve clients; zero means that one does
	idleChecks  int  // number of consecutive calls of Balance that found one loop too many
	unsupported bool // the system supports no event loops
}

// Open makes the loops available to the clients of a listener, until Close.
func (g *Group) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners++
}

// Close is called when all clients of a listener have ended. The last call ends the loops.
func (g *Group) Close() {
	g.mu.Lock()
	var loops []*Loop
	if g.listeners--; g.listeners == 0 {
		loops, g.loops, g.active = g.loops, nil, 0
	}
	g.mu.Unlock()
	for _, loop := range loops {
		loop.stop()
	}
}

// isUnsupported reports whether the system supports no event loops.
func (g *Group) isUnsupported() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsupported
}

// pick returns a loop for another client, or nil if there is none.
func (g *Group) pick() *Loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.loops) == 0 && !g.addLoopLocked() {
		return nil
	}
	return leastLoaded(g.loops[:max(g.active, 1)])
}

// addLoopLocked adds a loop, and reports whether it did. The caller must hold mu.
func (g *Group) addLoopLocked() bool {
	if g.unsupported {
		return false
	}
	newPoller := rawio.NewPoller
	if g.NewPoller != nil {
		newPoller = g.NewPoller
	}
	loop, err := newLoop(newPoller)
	if err != nil {
		g.unsupported = errors.Is(err, errors.ErrUnsupported) // other errors are temporary
		g.Log.Debug().Err(err).Msg("event loop not available")
		return false
	}
	g.loops = append(g.loops, loop)
	return true
}

// leastLoaded returns the loop with the fewest clients.
func leastLoaded(loops []*Loop) *Loop {
	return slices.MinFunc(loops, func(a, b *Loop) int { return cmp.Compare(a.clientCount.Load(), b.clientCount.Load()) })
}

const (
	// overloadPercent is the busy share, in percent, above which another loop is added.
	overloadPercent = 75
	// sparePercent is the busy share, in percent, below which one fewer loop would suffice.
	// shrinkAfterChecks is the number of consecutive checks that must agree before a loop is
	// stopped, because stopping it moves all its clients.
	sparePercent      = 50
	shrinkAfterChecks = 5
)

// ClientCounts returns the number of clients of each loop, including clients that are about to join.
func (g *Group) ClientCounts() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := make([]int, 0, len(g.loops))
	for _, loop := range g.loops {
		counts = append(counts, int(loop.clientCount.Load()))
	}
	return counts
}

// Balance adjusts the number of active loops to the load, and distributes the clients evenly. One
// goroutine calls it about once a second. passed is the time since the last call.
func (g *Group) Balance(passed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active = max(g.active, 1)
	clientCount, maxBusy, totalBusy := int32(0), time.Duration(0), time.Duration(0)
	for _, loop := range g.loops {
		busy := time.Duration(loop.busyNanos.Swap(0))
		clientCount, maxBusy, totalBusy = clientCount+loop.clientCount.Load(), max(maxBusy, busy), totalBusy+busy
	}
	g.idleChecks++
	switch {
	case clientCount == 0:
		return
	case maxBusy*100 >= passed*overloadPercent && g.active < runtime.GOMAXPROCS(0):
		if g.active < len(g.loops) || g.addLoopLocked() {
			g.active, g.idleChecks = g.active+1, 0
		}
	case totalBusy*100 >= passed*sparePercent*time.Duration(g.active-1) && g.active <= runtime.GOMAXPROCS(0):
		g.idleChecks = 0
	case g.idleChecks >= shrinkAfterChecks && g.active > 1:
		g.active, g.idleChecks = g.active-1, 0
	}
	g.moveClientsLocked(int(clientCount))
}

// moveClientsLocked moves clients away from loops that have more than their share, and from inactive loops.
// The caller must hold mu.
func (g *Group) moveClientsLocked(clientCount int) {
	for i, loop := range g.loops {
		fairShare := 0
		if i < g.active {
			fairShare = clientCount/g.active + clientCount/16 + 1
		}
		if target, clientCount := leastLoaded(g.loops[:g.active]), int(loop.clientCount.Load()); target != loop && clientCount > fairShare {
			loop.send(message{transferCount: clientCount - fairShare, transferTarget: target})
		}
	}
}
