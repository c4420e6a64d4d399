package crashdetect

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
	"shardway/peer"
)

const (
	// redials and redialPause bound one investigation. The kernel closes the descriptors of a killed
	// process one by one, so its listener may still exist shortly after the connection was closed.
	redials     = 8
	redialPause = 5 * time.Millisecond
	redialLimit = 200 * time.Millisecond
	// rememberFor is how long a closed connection is remembered for the next leader.
	rememberFor = 10 * time.Second
)

// Process is the process at the other end of a heartbeat connection.
type Process struct {
	Boot uint64
	// Nonce is zero if the peer has not sent it: then the peer was the leader, which receives heartbeats.
	Nonce uint64
}

// Detector determines whether the process of a node has ended after its heartbeat connection has closed. It
// dials the node again: a refused connection is evidence that the process of the closed connection has
// crashed. A follower remembers closed connections for rememberFor, in case it is elected leader.
type Detector struct {
	port  *peer.Port
	clock clock.Clock
	// refused is called if no process listens at the address of the node. began is the time of the clock at
	// which the redial began. It returns true if the redial began too early to count.
	refused func(node string, gone Process, began time.Duration) (again bool)

	ctx context.Context // of Start
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		closed map[string]closedConn
		busy   map[string]bool // nodes with an investigation
	}
}

// closedConn is the process of a closed heartbeat connection.
type closedConn struct {
	Process
	at time.Time
}

// NewDetector returns a Detector that dials through port. refused is called if no process listens at the
// address of a node whose process has ended; began is the time of the clock at which the dial began. If
// refused returns true, the dial began too early to count, and another one follows.
func NewDetector(port *peer.Port, c clock.Clock, refused func(node string, gone Process, began time.Duration) (again bool)) *Detector {
	d := &Detector{port: port, clock: c, refused: refused}
	d.mu.closed, d.mu.busy = map[string]closedConn{}, map[string]bool{}
	return d
}

// Start must be called before any other method. Investigations end with ctx.
func (d *Detector) Start(ctx context.Context) { d.ctx = ctx }

// Wait returns after the last investigation. The context of Start must have ended.
func (d *Detector) Wait() { d.wg.Wait() }

// ConnClosed records that a heartbeat connection with a process of node has closed, and investigates the
// node. Of several connections with the same boot, the one that has a nonce counts.
func (d *Detector) ConnClosed(node string, gone Process) {
	d.mu.Lock()
	was, now := d.mu.closed[node], time.Now()
	if gone.Nonce == 0 && gone.Boot == was.Boot {
		gone.Nonce = was.Nonce
	}
	// A lower boot number usually means an older process. But the numbers start again if the disk was
	// emptied, so a record that is older than rememberFor is replaced in any case.
	if was.Boot <= gone.Boot || now.Sub(was.at) > rememberFor {
		d.mu.closed[node] = closedConn{Process: gone, at: now}
	}
	d.mu.Unlock()
	d.investigate(node)
}

// Recheck investigates all nodes whose connections closed in the last rememberFor. For a new leader, evidence
// counts only if the redial began after its election.
func (d *Detector) Recheck() {
	d.mu.Lock()
	now := time.Now()
	var todo []string
	for node, b := range d.mu.closed {
		if now.Sub(b.at) > rememberFor {
			delete(d.mu.closed, node)
			continue
		}
		todo = append(todo, node)
	}
	d.mu.Unlock()
	for _, node := range todo {
		d.investigate(node)
	}
}

// investigate redials the node in the background. A node has one investigation at a time.
func (d *Detector) investigate(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.busy[node] || d.ctx.Err() != nil {
		return
	}
	d.mu.busy[node] = true
	gone := d.mu.closed[node].Process
	d.wg.Go(func() {
		for more := true; more; {
			d.redial(node, gone)
			gone, more = d.takeNext(node, gone)
		}
	})
}

// takeNext returns the process whose connection has closed since, or ends the investigation.
func (d *Detector) takeNext(node string, told Process) (gone Process, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, ok := d.mu.closed[node]; ok && b.Process != told && d.ctx.Err() == nil {
		return b.Process, true
	}
	delete(d.mu.busy, node)
	return Process{}, false
}

// redial ends at the first response of any kind. A node that responds is alive, and a node that does not
// respond leaves the decision to the leases.
func (d *Detector) redial(node string, gone Process) {
	pause := redialPause
	for range redials {
		began := d.clock.Precise() // before the dial, because a refusal proves nothing about an earlier time
		ctx, cancel := context.WithTimeout(d.ctx, redialLimit)
		c, err := d.port.Dial(ctx, node, peer.Control)
		cancel()
		if err == nil {
			_ = c.Close()
			return
		}
		if peer.IsRefused(err) && !d.refused(node, gone, began) {
			return
		}
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 2
	}
}
